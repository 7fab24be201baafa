/** The build bundles the file after `worker-text:` and gives its script as a text. */
declare module "worker-text:*" {
  const script: string;
  export default script;
}

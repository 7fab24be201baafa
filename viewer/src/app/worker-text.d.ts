/** The build bundles the file after `worker-text:` and exports its script as text. */
declare module "worker-text:*" {
  const script: string;
  export default script;
}

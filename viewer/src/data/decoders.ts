/** Workers that decode blocks, and the same work on this thread where workers are refused. */

import { deliver, type Delivery, type Order } from "./decode-worker";

type Listener = (delivery: Delivery) => void;

export interface Decoders {
  order(order: Order): Promise<Delivery>;
  close(): void;
}

/** `source` is the text of the worker's script. */
export function startDecoders(source: string, wanted: number): Decoders {
  const workers: Worker[] = [];
  const waiting = new Map<number, Listener>();
  try {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    for (let i = 0; i < wanted; i++) {
      const worker = new Worker(address);
      worker.onmessage = (event: MessageEvent<Delivery>) => {
        waiting.get(event.data.block)?.(event.data);
        waiting.delete(event.data.block);
      };
      workers.push(worker);
    }
  } catch {
    workers.length = 0;
  }
  let next = 0;
  return {
    order(order) {
      const worker = workers[next++ % Math.max(1, workers.length)];
      if (!worker) return deliver(order);
      return new Promise((resolve) => {
        const giveUp = (): void => {
          waiting.delete(order.block);
          void deliver(order).then(resolve);
        };
        waiting.set(order.block, resolve);
        worker.onerror = giveUp;
        worker.postMessage(order);
      });
    },
    close() {
      for (const worker of workers) worker.terminate();
    },
  };
}

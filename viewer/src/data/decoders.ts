/** Workers that decode blocks. Without workers this thread decodes. */

import { Decoder, type Delivery, type Order } from "./decode-worker";

/** Blocks up to this size, except events, are inflated on this thread. */
const SMALL_BYTES = 2 ** 20;

export interface Decoders {
  order(order: Order): Promise<Delivery>;
  close(): void;
}

interface Sent {
  readonly order: Order;
  readonly resolve: (delivery: Delivery) => void;
}

/** One worker, its pending orders, and their size. */
class Hand {
  readonly worker: Worker;
  private waiting = 0; // bytes
  private taken = 0;
  private readonly sent = new Map<number, Sent>();
  private hasAnswered = false;

  constructor(
    address: string,
    private readonly fallBack: Decoder,
  ) {
    this.worker = new Worker(address);
    this.worker.onmessage = ({ data }: MessageEvent<Delivery>) => {
      this.hasAnswered = true;
      const one = this.sent.get(data.block);
      this.sent.delete(data.block);
      this.waiting -= one?.order.rawBytes ?? 0;
      one?.resolve(data);
    };
    this.worker.onerror = () => this.giveUp();
  }

  /** Compares two workers by pending bytes, then by completed work. */
  isIdlerThan(other: Hand): boolean {
    return this.waiting !== other.waiting ? this.waiting < other.waiting : this.taken < other.taken;
  }

  order(order: Order): Promise<Delivery> {
    return new Promise((resolve) => {
      this.sent.set(order.block, { order, resolve });
      this.waiting += order.rawBytes;
      this.taken += order.rawBytes;
      if (this.worker.onerror) this.worker.postMessage(order);
      else this.giveUp();
    });
  }

  /** A worker that never answered was refused: this thread executes its orders. Otherwise its rows fail. */
  private giveUp(): void {
    this.worker.onerror = null;
    for (const { order, resolve } of this.sent.values()) {
      if (this.hasAnswered) resolve(lost(order));
      else void this.fallBack.deliver(order).then(resolve);
    }
    this.sent.clear();
  }
}

function lost({ block }: Order): Delivery {
  return { block, rows: [], failed: [], bytes: null, error: "Decoding of the events stopped." };
}

/** `source` is the text of the worker's script. Without workers this thread decodes. */
export function startDecoders(source: string, wanted: number): Decoders {
  const hands: Hand[] = [];
  const own = new Decoder();
  const small = new Decoder();
  try {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    for (let i = 0; i < wanted; i++) hands.push(new Hand(address, own));
  } catch {
    hands.length = 0;
  }
  const ofGroup = new Map<number, Hand>();
  return {
    order(order) {
      // The first picture must not wait for a worker to start.
      if (order.rows.length === 0 && order.rawBytes <= SMALL_BYTES) return small.deliver(order);
      const known = order.group === undefined ? undefined : ofGroup.get(order.group);
      const idlest = hands.reduce<Hand | null>((a, b) => (a && !b.isIdlerThan(a) ? a : b), null);
      const hand = known ?? idlest;
      if (!hand) return own.deliver(order);
      if (order.group !== undefined) ofGroup.set(order.group, hand);
      return hand.order(order);
    },
    close() {
      for (const { worker } of hands) worker.terminate();
    },
  };
}

// Browsers run the timers of hidden pages once a minute at most, which is too rarely to connect again.
// Timers of workers run in time. Where a page may not start a worker (Content-Security-Policy without
// worker-src blob:), its own timers do what they can.
const source = "onmessage=({data:[i,ms]})=>setTimeout(postMessage,ms,i)";

let worker: Worker | null | undefined;
let last = 0;
const waiting = new Map<number, () => void>();

function start(): Worker | null {
  if (typeof document === "undefined" || typeof Worker === "undefined") return null;
  try {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const started = new Worker(address);
    URL.revokeObjectURL(address);
    started.onmessage = ({ data }) => waiting.get(data as number)?.();
    started.onerror = (event) => event.preventDefault();
    return started;
  } catch {
    return null;
  }
}

/** Calls run once after ms milliseconds, also in a hidden page. The returned function cancels it. */
export function after(ms: number, run: () => void): () => void {
  const id = ++last;
  const cancel = () => {
    clearTimeout(timer);
    waiting.delete(id);
  };
  const fire = () => {
    cancel();
    run();
  };
  const timer = setTimeout(fire, ms);
  worker ??= start();
  if (worker) {
    waiting.set(id, fire);
    worker.postMessage([id, ms]);
  }
  return cancel;
}

/** The pause before try number failures (from 1): doubles from first up to max, random between half and all of it. */
export function backoff(failures: number, first: number, max: number): number {
  return Math.min(max, first * 2 ** (failures - 1)) * (0.5 + Math.random() / 2);
}

/** How long to wait for what has to come: only a fault takes so long, also on a busy machine. */
export const patience = 60_000;

/** Values that have come, and a way to wait for one. */
export class Seen<T> {
  readonly all: T[] = [];
  #waiting = new Set<() => void>();

  push = (value: T) => {
    this.all.push(value);
    for (const look of [...this.#waiting]) look();
  };

  /** The first value from the position from on that fits. Fails after ms milliseconds with what it has waited for. */
  first(fits: (value: T) => boolean, what: string, { from = 0, ms = patience } = {}): Promise<T> {
    return this.until(() => this.all.slice(from).find(fits), what, ms) as Promise<T>;
  }

  /** What find returns as soon as that is neither undefined nor false; find is called after each value. */
  until<R>(find: () => R | undefined | false, what: string, ms = patience): Promise<R> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = find();
        if (found === undefined || found === false) return;
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve(found);
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(look);
        const last = this.all.slice(-20).map((value) => JSON.stringify(value));
        reject(new Error(`${what}: not in ${ms} ms; the last of ${this.all.length} values:\n${last.join("\n")}`));
      }, ms);
      this.#waiting.add(look);
      look();
    });
  }
}

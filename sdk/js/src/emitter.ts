/** Calls listeners by the name of an event. */
export class Emitter<Events extends Record<string, unknown[]>> {
  readonly #listeners: { [Name in keyof Events]?: Set<(...args: Events[Name]) => void> } = {};

  /** Calls listener at each event, until the returned function is called. A listener must not throw. */
  on<Name extends keyof Events>(name: Name, listener: (...args: Events[Name]) => void): () => void {
    const all = this.#listeners[name] ?? new Set();
    this.#listeners[name] = all;
    all.add(listener);
    return () => void all.delete(listener);
  }

  /** Returns whether there was a listener. */
  protected emit<Name extends keyof Events>(name: Name, ...args: Events[Name]): boolean {
    const all = [...(this.#listeners[name] ?? [])];
    for (const listener of all) {
      try {
        listener(...args);
      } catch (error) {
        // The error is the application's: it must not stop the connection, and must not get lost.
        setTimeout(() => {
          throw error;
        });
      }
    }
    return all.length > 0;
  }
}

// The package socket.io of TestABridge...: the lines of stdin are what happens to connections, and seconds are short.
import { EventEmitter } from "node:events";
import { createInterface } from "node:readline";

const wait = setTimeout;
globalThis.setTimeout = (done, ms, ...more) => wait(done, ms === 3000 || ms === 1000 ? ms / 100 : ms, ...more);

export class Server {
  on(_, connection) {
    const sockets = {};
    createInterface({ input: process.stdin }).on("line", (line) => {
      const [event, user, ...reason] = line.split(" ");
      if (event === "hang") {
        const now = Date.now;
        Date.now = () => now() + 10_000;
      } else if (event === "connection") {
        sockets[user] = Object.assign(new EventEmitter(), { handshake: { auth: { user } } });
        connection(sockets[user]);
      } else {
        sockets[user].emit(event, reason.join(" "));
      }
    });
  }
}

import { createServer, connect as dial, type Server as Listener, type Socket } from "node:net";
import { Seen } from "./seen.js";

/** What a client did on one of its connections. */
export interface Sent {
  connection: number;
  /** The first line of the handshake, a text message, "pong", "close CODE", or "end". */
  text: string;
}

/** Stands between clients and the server: it notes what clients send, and breaks connections as told. */
export class Between {
  readonly sent = new Seen<Sent>();
  url = "";
  /** Connections that are open. */
  open = 0;
  #sockets = new Set<{ client: Socket; server: Socket; hangs: boolean }>();
  #listener: Listener;
  #count = 0;
  #refuses = false;

  private constructor(port: number) {
    this.#listener = createServer((client) => this.#accept(client, port));
  }

  static async before(port: number): Promise<Between> {
    const proxy = new Between(port);
    await new Promise<void>((resolve) => proxy.#listener.listen(0, "127.0.0.1", resolve));
    proxy.url = `http://127.0.0.1:${(proxy.#listener.address() as { port: number }).port}`;
    return proxy;
  }

  #accept(client: Socket, port: number) {
    if (this.#refuses) return void client.destroy();
    const connection = ++this.#count;
    const server = dial(port, "127.0.0.1");
    const pair = { client, server, hangs: false };
    this.#sockets.add(pair);
    const reader = new Reader((text) => this.sent.push({ connection, text }));
    client.on("data", (data: Buffer) => {
      if (reader.read(data)) this.open++;
    });
    client.pipe(server);
    server.pipe(client);
    const end = () => {
      if (pair.hangs) return;
      client.destroy();
      server.destroy();
      if (!this.#sockets.delete(pair)) return;
      if (reader.upgraded) this.open--;
      this.sent.push({ connection, text: "end" });
    };
    for (const socket of [client, server]) socket.on("close", end).on("error", end);
  }

  /** The WebSocket connections that were ever opened. */
  get handshakes(): Sent[] {
    return this.sent.all.filter(({ text }) => text.startsWith("GET ") && /\/presence\/(connect|stream)/.test(text));
  }

  /** Breaks all connections. */
  drop() {
    for (const pair of this.#sockets) {
      pair.hangs = false;
      pair.client.destroy();
      pair.server.destroy();
    }
  }

  /** Whether to refuse new connections. */
  refuse(on: boolean) {
    this.#refuses = on;
  }

  /** Keeps all connections and passes nothing on any more, in either direction. */
  hang() {
    for (const pair of this.#sockets) {
      const { client, server } = pair;
      pair.hangs = true;
      client.unpipe(server);
      server.unpipe(client);
      client.resume();
      server.resume();
    }
  }

  /** Sends bytes to all clients as if they came from the server. */
  inject(bytes: Buffer) {
    for (const { client } of this.#sockets) client.write(bytes);
  }

  async end() {
    this.drop();
    await new Promise((resolve) => this.#listener.close(resolve));
  }
}

/** How often clients have shown that they are there. */
export const shown = (proxy: Between) => proxy.sent.all.filter(({ text }) => text === "pong").length;

/** A WebSocket frame of the server. */
export function frame(opcode: number, payload: Buffer | string): Buffer {
  const data = Buffer.from(payload as string);
  return Buffer.concat([Buffer.from([0x80 | opcode, data.length]), data]); // up to 125 bytes
}

/** Reads what a client sends: the handshake, then masked frames. */
class Reader {
  upgraded = false;
  #rest = Buffer.alloc(0);
  readonly #onText: (text: string) => void;

  constructor(onText: (text: string) => void) {
    this.#onText = onText;
  }

  /** Returns whether the handshake of a WebSocket ended here. */
  read(data: Buffer): boolean {
    this.#rest = Buffer.concat([this.#rest, data]);
    if (this.upgraded) {
      this.#frames();
      return false;
    }
    const end = this.#rest.indexOf("\r\n\r\n");
    if (end < 0) return false;
    const head = this.#rest.subarray(0, end).toString();
    this.#onText(head.split("\r\n")[0]!);
    this.upgraded = /upgrade: websocket/i.test(head);
    this.#rest = this.upgraded ? this.#rest.subarray(end + 4) : Buffer.alloc(0);
    return this.upgraded;
  }

  #frames() {
    for (;;) {
      const b = this.#rest;
      if (b.length < 6) return;
      let length = b[1]! & 0x7f;
      let at = 2;
      if (length === 126) [length, at] = [b.readUInt16BE(2), 4];
      if (b.length < at + 4 + length) return;
      const mask = b.subarray(at, at + 4);
      const payload = Buffer.from(b.subarray(at + 4, at + 4 + length).map((byte, i) => byte ^ mask[i % 4]!));
      const opcode = b[0]! & 0xf;
      this.#rest = b.subarray(at + 4 + length);
      if (opcode === 1) this.#onText(payload.toString());
      if (opcode === 10) this.#onText("pong");
      if (opcode === 8) this.#onText(`close ${payload.length >= 2 ? payload.readUInt16BE(0) : 1005}`);
    }
  }
}

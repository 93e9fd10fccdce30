// The chat's own server: the page, and messages from each page to all others. Presence is not its business.
import { createReadStream } from "node:fs";
import { createServer } from "node:http";

const port = Number(process.argv[2] ?? 5500);
const files = {
  "/": ["index.html", "text/html"],
  "/stillhere.min.js": ["../../dist/stillhere.min.js", "text/javascript"],
};
const pages = new Set();
const most = 4096; // bytes of a message

createServer((request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  const file = files[pathname];
  if (pathname === "/messages" && request.method === "GET") {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write(":\n\n");
    pages.add(response);
    response.on("close", () => pages.delete(response));
  } else if (pathname === "/messages" && request.method === "POST") {
    let text = "";
    request.setEncoding("utf8");
    request.on("data", (part) => {
      text += part;
      if (text.length > most) request.destroy();
    });
    request.on("end", () => {
      const line = JSON.stringify(text); // one line, whatever is in it
      for (const page of pages) page.write(`data: ${line}\n\n`);
      response.writeHead(204).end();
    });
  } else if (file) {
    response.writeHead(200, { "Content-Type": `${file[1]}; charset=utf-8`, "Cache-Control": "no-cache" });
    createReadStream(new URL(file[0], import.meta.url))
      .on("error", () => response.end("// Not there: npm run build makes it."))
      .pipe(response);
  } else response.writeHead(404).end();
}).listen(port, "127.0.0.1", () => console.log(`open http://127.0.0.1:${port}/?me=1`));

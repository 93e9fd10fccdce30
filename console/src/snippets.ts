// The same as the screen Try does, for other programs.

export interface Wanted {
  server: string;
  user: string;
  device: string;
  kind: string;
  tenant: string;
  text: boolean;
  /** Whether requests need a token. The text never has the token itself. */
  token: boolean;
}

export const languages = ["curl", "Go", "JavaScript", "Python"] as const;
export type Language = (typeof languages)[number];
export const acts = ["beat", "bye", "watch"] as const;
export type Act = (typeof acts)[number];

const shell = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
const quote = (text: string) => JSON.stringify(text);

function beatOf(w: Wanted, bye: boolean): string {
  return JSON.stringify({
    beats: [
      {
        user_id: w.user,
        device_id: w.text ? w.device : Number(w.device),
        device_kind: w.kind,
        ...(w.tenant && { tenant: w.tenant }),
        ...(bye && { bye: true }),
      },
    ],
  });
}

function streamOf(w: Wanted): string {
  const query = new URLSearchParams({ user_ids: w.user, ...(w.tenant && { tenant: w.tenant }) });
  return `${w.server}/presence/stream?${query}`;
}

function curl(w: Wanted, act: Act): string {
  const token = w.token ? ' -H "Authorization: Bearer $TOKEN"' : "";
  return act === "watch"
    ? `curl -N${token} ${shell(streamOf(w))}`
    : `curl${token} -d ${shell(beatOf(w, act === "bye"))} \\\n  ${shell(`${w.server}/presence/heartbeats`)}`;
}

function go(w: Wanted, act: Act): string {
  const token = w.token ? `\n\trequest.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))` : "";
  const os = w.token ? `\n\t"os"` : "";
  if (act === "watch")
    return `package main

import (
	"bufio"
	"fmt"
	"log"
	"net/http"${os}
)

func main() {
	request, err := http.NewRequest("GET", ${quote(streamOf(w))}, nil)
	if err != nil {
		log.Fatal(err)
	}${token}
	request.Header.Set("Accept", "text/event-stream")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		fmt.Println(lines.Text())
	}
}`;
  return `package main

import (
	"log"
	"net/http"${os}
	"strings"
)

func main() {
	body := \`${beatOf(w, act === "bye").replaceAll("`", '` + "`" + `')}\`
	request, err := http.NewRequest("POST", ${quote(`${w.server}/presence/heartbeats`)}, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}${token}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	log.Print(answer.Status)
}`;
}

function javascript(w: Wanted, act: Act): string {
  const options = (more: Record<string, string>) =>
    [
      `  url: ${quote(w.server)},`,
      ...Object.entries(more).map(([name, text]) => `  ${name}: ${quote(text)},`),
      ...(w.tenant ? [`  tenant: ${quote(w.tenant)},`] : []),
      ...(w.token ? ["  token: process.env.TOKEN, // or a function that gets one"] : []),
    ].join("\n");
  const device = options({ user: w.user, device: w.device, kind: w.kind });
  const head = `import { connect } from "@stillhere/client"; // sdk/js\n\n`;
  if (act === "beat")
    return `${head}// The user is online from here on; heartbeats follow by themselves.
const presence = connect({
${device}
});`;
  if (act === "bye")
    return `${head}const presence = connect({
${device}
});
presence.on("status", (status) => {
  if (status === "open") presence.close(); // the bye; closing the page is one as well
});`;
  return `${head}const presence = connect({
${options({})}
  present: false, // it only watches
});
presence.watch([${quote(w.user)}], (user) => {
  console.log(user.user_id, user.state, user.last_seen_at); // state null: hidden
});`;
}

function python(w: Wanted, act: Act): string {
  const header = w.token ? `\n    headers={"Authorization": "Bearer " + os.environ["TOKEN"]},` : "";
  const os = w.token ? "import os\n" : "";
  if (act === "watch")
    return `${os}import urllib.request

request = urllib.request.Request(
    ${quote(streamOf(w))},${header}
)
request.add_header("Accept", "text/event-stream")
with urllib.request.urlopen(request) as answer:
    for line in answer:
        print(line.decode().rstrip())`;
  const fields = Object.entries(JSON.parse(beatOf(w, act === "bye")).beats[0]);
  const beat = fields.map(([name, value]) => `${quote(name)}: ${value === true ? "True" : JSON.stringify(value)}`);
  return `import json
${os}import urllib.request

beat = {
${beat.map((field) => `    ${field},\n`).join("")}}
request = urllib.request.Request(
    ${quote(`${w.server}/presence/heartbeats`)},
    data=json.dumps({"beats": [beat]}).encode(),${header}
)
request.add_header("Content-Type", "application/json")
print(urllib.request.urlopen(request).status)`;
}

const writers: Record<Language, (w: Wanted, act: Act) => string> = {
  curl,
  Go: go,
  JavaScript: javascript,
  Python: python,
};

export const snippet = (language: Language, w: Wanted, act: Act) => writers[language](w, act);

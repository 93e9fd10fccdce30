import { render } from "preact";
import "./css/base.css";
import "./css/parts.css";
import "./css/screens.css";
import { App } from "./app";
import { setTheme, themeNow } from "./theme";

setTheme(themeNow());
render(<App />, document.getElementById("app")!);

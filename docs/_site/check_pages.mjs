// Every page of the built site, or of another folder, in headless Chromium: axe-core finds nothing, in light colours and in dark ones, no request
// leaves the machine, the console stays silent, nothing but a table or a formula in its own box scrolls sideways.
//
//   npm install --prefix TOOLS puppeteer-core axe-core
//   node docs/_site/check_pages.mjs SITE TOOLS [--pictures FOLDER] [--only PATTERN] [--widths 375,700,1280] [--draw SEED]
//
// With --draw a page is looked at in one scheme, and axe-core runs at one width, both drawn by the seed; without, in and at all of them.
// Links that lead elsewhere are listed, not followed. Needs a Chromium on the path (or in CHROMIUM). Prints one line for each finding, then how many pages were looked at;
// exit code 0 without findings, 1 with, 2 for wrong usage.
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { extname, join, relative, resolve, sep } from "node:path";

const SCHEMES = { light: "default", dark: "slate" };  // what the reader's system prefers, and what the theme calls it
const COLOURS = { type: "rule", values: ["color-contrast", "link-in-text-block"] };  // in dark colours all else is as it was
const TABS = 2;
const TYPES = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json",
  ".svg": "image/svg+xml", ".png": "image/png", ".xml": "text/xml", ".gz": "application/gzip" };

const words = process.argv.slice(2);
function option(name) {
  const at = words.indexOf(name);
  return at < 0 ? null : words.splice(at, 2)[1];
}
const pictures = option("--pictures"), only = option("--only"), seed = option("--draw");
const WIDTHS = (option("--widths") ?? "700,1280,1600").split(",").map(Number);
if (words.length !== 2 || !existsSync(words[0]) || !WIDTHS.every(width => width > 0)) {
  console.error("usage: check_pages.mjs SITE TOOLS [--pictures FOLDER] [--only PATTERN] [--widths 375,700,1280] [--draw SEED]; SITE is a folder of pages");
  process.exit(2);
}
const [site, tools] = words.map(word => resolve(word));
const require = createRequire(join(tools, "package.json"));
const puppeteer = require("puppeteer-core");
const axe = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
const chromium = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

const server = createServer(async (request, answer) => {
  const path = join(site, decodeURIComponent(new URL(request.url, "http://localhost").pathname));
  try {
    if (!path.startsWith(site + sep)) throw new Error("outside of the site");
    const content = await readFile(path);
    answer.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" }).end(content);
  } catch { answer.writeHead(404).end(); }
});
await new Promise(done => server.listen(0, "127.0.0.1", done));
const root = `http://127.0.0.1:${server.address().port}`;

async function pages(folder) {
  const found = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) found.push(...await pages(path));
    else if (entry.name.endsWith(".html")) found.push(relative(site, path));
  }
  return found.sort();
}

const findings = [], outside = new Set();
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const all = (await pages(site)).filter(name => !only || name.includes(only));
const drawn = (choices, what) => choices[createHash("sha256").update(`${seed} ${what}`).digest()[0] % choices.length];
const schemes = name => seed ? [drawn(Object.keys(SCHEMES), name)] : Object.keys(SCHEMES);
const left = all.flatMap(name => schemes(name).map(scheme => [name, scheme]));

// One page in one colour scheme, in a context of its own: a context shared with the page before also shares its storage,
// where that page, still listening, may write the colours it had after the new one has begun.
async function look(name, scheme) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  let now = `${name}, ${scheme}`;
  await page.emulateMediaFeatures([
    { name: "prefers-reduced-motion", value: "reduce" }, { name: "prefers-color-scheme", value: scheme }]);
  await page.setRequestInterception(true);
  page.on("request", request => {
    const url = request.url();
    if (url.startsWith(root) || url.startsWith("data:") || url.startsWith("blob:")) return request.continue();
    findings.push(`${now}: asks for ${url}`);
    request.abort();
  });
  page.on("response", response => { if (response.status() >= 400) findings.push(`${now}: ${response.status()} ${response.url().replace(root, "")}`); });
  page.on("console", message => { if (["error", "warn"].includes(message.type())) findings.push(`${now}: console: ${message.text()}`); });
  page.on("pageerror", error => findings.push(`${now}: ${error.message}`));
  await page.setViewport({ width: WIDTHS[0], height: 900 });
  await page.goto(`${root}/${name}`, { waitUntil: "load" });
  const shown = await page.evaluate(() => document.body.dataset.mdColorScheme);
  if (shown && shown !== SCHEMES[scheme]) findings.push(`${now}: shown in the colours ${shown}`);
  await page.evaluate(axe);
  const widths = scheme === "light" ? WIDTHS : WIDTHS.slice(0, 2);
  const chosen = seed && drawn(widths, now);
  for (const width of widths) {
    now = `${name} at ${width}, ${scheme}`;
    await page.setViewport({ width, height: 900 });
    await page.evaluate(() => new Promise(done => setTimeout(done, 150)));
    if (pictures) {
      await mkdir(pictures, { recursive: true });
      const title = name.replaceAll(sep, "-").replace(".html", "");
      await page.screenshot({ path: join(pictures, `${title}-${width}-${scheme}.png`) });
    }
    for (const link of await page.$$eval("a[href^=http]", links => links.map(one => one.href)))
      if (!link.startsWith(root)) outside.add(link);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    if (over > 0) findings.push(`${now}: ${over} px wider than the window`);
    if (seed && width !== chosen) continue;
    const options = { resultTypes: ["violations"], ...(scheme === "light" ? {} : { runOnly: COLOURS }) };
    const { violations } = await page.evaluate(chosen => axe.run(document, chosen), options);
    for (const one of violations)
      findings.push(`${now}: axe ${one.id} (${one.impact}), ${one.nodes.length} times, first ${one.nodes[0].target.join(" ")}: ${one.help}`);
  }
  await context.close();
}

async function tab() {
  for (let next = left.shift(); next; next = left.shift()) await look(...next);
}

try {
  await Promise.all(Array.from({ length: TABS }, tab));
} finally {
  await browser.close();
  server.close();
}
for (const link of [...outside].sort()) console.log(`leads elsewhere, not followed: ${link}`);
for (const finding of new Set(findings)) console.log(finding);
console.log(`${all.length} pages at ${WIDTHS.join(", ")} px, in ${seed ? "light colours or in dark ones" : "light colours and in dark ones"}: ${new Set(findings).size} findings`);
process.exitCode = findings.length ? 1 : 0;

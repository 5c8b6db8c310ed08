import { Page, launch, serve } from "./support.mjs";
const site = await serve(); const browser = await launch();
for (const [name, size, colorScheme] of [["wide-light",{width:1280,height:900},"light"],["wide-dark",{width:1280,height:900},"dark"],["phone",{width:390,height:844},"light"]]) {
  const page = await Page.open(browser, site.url + "?engine=cpu", { colorScheme, viewport: size });
  await page.page.setViewportSize(size);
  await page.upload("/tmp/g/trees.csv");
  await page.summary(/^trees.csv/);
  await page.page.waitForTimeout(600);
  await page.page.screenshot({ path: `/tmp/shots/${name}.png` });
  const el = await page.page.$("[data-testid=data-preview]");
  await el.scrollIntoViewIfNeeded(); await page.page.waitForTimeout(200);
  await page.page.screenshot({ path: `/tmp/shots/${name}-2.png` });
  await page.page.close();
}
await browser.close(); site.close();

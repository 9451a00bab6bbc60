"""The explorer in a real browser: every view, a filter, SQL, a model, a download, the keyboard, light and dark, wide and narrow.

`page.py M2M OUT`: makes a release with the command M2M, serves it, looks at it, and keeps screenshots in OUT. Fails on
errors in the console, on requests to anybody else, and on serious findings of axe-core.
"""

import importlib.resources
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

PATIENCE = 60
AXE = importlib.resources.files("selenium_axe_python").joinpath("axe-core/axe.min.js").read_text()


def find(names):
    return next((path for path in map(shutil.which, names) if path), None)


class Browser:
    def __init__(self, out):
        self.out, self.profile = out, tempfile.mkdtemp(prefix="m2m-browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = find(["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"])
        for flag in (
            "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
            "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
        ).split():
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={self.profile}")
        options.add_experimental_option("prefs", {"download.default_directory": str(out)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(executable_path=find(["chromedriver"]))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.hosts = set()

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def wait(self, what, message):
        return WebDriverWait(self.driver, PATIENCE, poll_frequency=0.02).until(lambda _: what(), message)

    def css(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def settled(self):
        """Waits until the view of the address is there."""
        ready = "return document.querySelector('main').dataset.ready === (location.hash || '#/overview')"
        self.wait(lambda: self.driver.execute_script(ready), "the view does not come")

    def go(self, name):
        self.driver.find_element(By.LINK_TEXT, name).click()
        self.settled()

    def size(self, width, height, dark=False):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})

    def shoot(self, name, width=1280, dark=False):
        self.size(width, 900, dark)
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        overflow = self.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{name} is {overflow} pixels wider than the window"
        self.size(width, min(height, 4000), dark)
        self.driver.save_screenshot(str(self.out / f"{name}.png"))
        self.size(1280, 900)

    def check_access(self, name):
        self.driver.execute_script(AXE)
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run(document).then(done, (error) => done({error: String(error)}))"
        )
        assert "error" not in found, found
        grave = [
            f"{one['impact']} {one['id']}: {one['help']}: {one['nodes'][0]['html'][:160]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert not grave, f"{name}:\n" + "\n".join(grave)

    def check_quiet(self, name, expected=()):
        """No errors in the console but those that are asked for."""
        lines = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        lines = [line for line in lines if not any(part in line for part in expected)]
        assert not lines, f"{name}: {lines}"

    def requests(self):
        """The addresses that were asked for since the last time."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


def check(browser, link, out):
    driver = browser.driver
    start = time.monotonic()
    driver.get(link)
    browser.settled()
    print(f"first view: {1000 * (time.monotonic() - start):.0f} ms")
    assert "token" not in driver.current_url
    assert len(browser.all(".card")) == 9 and len(browser.all(".card svg")) == 9
    assert "ε = 1" in browser.css("#budget").text, browser.css("#budget").text

    def look(name, **more):
        browser.shoot(name, **more)
        browser.check_quiet(name)

    look("overview")
    browser.check_access("overview")
    look("overview-dark", dark=True)
    look("overview-narrow", width=390)

    browser.css(".card[href*='income']").click()
    browser.settled()
    assert "income" in browser.css("h1").text and len(browser.all(".chart svg")) == 2
    look("column")
    look("column-dark", dark=True)
    browser.check_access("column")
    Select(browser.css("select[name=column]")).select_by_value("education")
    browser.settled()
    look("column-levels")

    browser.go("Pairs")
    Select(browser.css("select[name=Across]")).select_by_value("age")
    browser.settled()
    Select(browser.css("select[name=Up]")).select_by_value("income")
    browser.settled()
    assert len(browser.all(".chart svg")) == 3
    look("pairs")
    browser.check_access("pairs")

    # A filter that is set here is carried to the other views.
    box = browser.css("#where")
    box.send_keys("sex = 'female' AND age >= 40", Keys.ENTER)
    browser.wait(lambda: "of" in browser.css("#filtered").text, "the filter does not count")
    browser.settled()
    look("pairs-filtered")
    women = float(browser.css("#filtered").text.split(" ")[0])
    assert 10_000 < women < 20_000, women

    browser.go("SQL")
    ready = lambda: browser.css("#result").get_attribute("data-ready")
    browser.wait(ready, "the first query has no answer")
    editor = browser.css("#query")
    editor.clear()
    editor.send_keys("SELECT regi")
    browser.wait(lambda: browser.css("#options").is_displayed(), "nothing is offered")
    browser.shoot("sql-completion")
    editor.send_keys(Keys.TAB, ", COUNT(*) AS n, AVG(income) FROM people GROUP BY region ORDER BY n DESC")
    editor.send_keys(Keys.ESCAPE)
    browser.css("#run").click()
    browser.wait(lambda: len(browser.all("#result tbody tr")) == 4, "the query has no answer")
    browser.wait(ready, "the query has no answer")
    total = sum(float(row.text.split(" ± ")[0].split(" ")[-1]) for row in browser.all("#result tbody tr"))
    assert abs(total - women) < 2000, (total, women)
    look("sql")
    browser.check_access("sql")
    editor.send_keys(" nonsense")
    browser.css("#run").click()
    browser.wait(lambda: browser.all("#result .bad"), "a wrong query is not refused")
    browser.shoot("sql-refused")
    browser.check_quiet("a refused query", ["/api/sql", "400"])

    browser.go("Models")
    browser.css("#fit").click()
    browser.wait(lambda: browser.css("#fitted").get_attribute("data-ready"), "the model does not come")
    assert len(browser.all("#fitted tbody tr")) >= 3 and browser.all("#fitted svg")
    look("models")
    look("models-dark", dark=True)
    browser.check_access("models")

    browser.go("Synthetic")
    assert len(browser.all("tbody tr")) == 25
    look("synthetic")
    look("synthetic-narrow", width=390)
    browser.check_access("synthetic")
    rows = browser.css("#rows")
    rows.clear()
    rows.send_keys("500")
    for kind in ("csv", "parquet"):
        browser.css(f"#load-{kind}").click()
        path = out / f"synthetic.{kind}"
        browser.wait(lambda: path.exists() and path.stat().st_size > 0, f"{kind} is not loaded")
    lines = (out / "synthetic.csv").read_text().splitlines()
    assert len(lines) == 501 and all(line.split(",")[1] == "female" for line in lines[1:])

    # The keyboard alone; the address holds view and filter, so that going back works.
    driver.find_element(By.TAG_NAME, "body").send_keys("1")
    browser.settled()
    assert "Overview" in driver.title
    driver.find_element(By.TAG_NAME, "body").send_keys("/")
    assert driver.switch_to.active_element.get_attribute("id") == "where"
    browser.css("#clear").click()
    browser.wait(lambda: browser.css("#filtered").text == "", "the filter stays")
    browser.settled()
    driver.back()
    browser.settled()
    assert "female" in browser.css("#where").get_attribute("value")
    where = browser.css("#where")
    where.clear()
    where.send_keys("agee > 3", Keys.ENTER)
    browser.wait(lambda: "agee" in browser.css("#filtered").text, "a wrong filter is not refused")
    browser.settled()
    browser.shoot("filter-refused")
    browser.check_quiet("a refused filter", ["/api/overview", "400"])

    own = urlsplit(link).netloc
    strangers = {url for url in browser.requests() if urlsplit(url).scheme.startswith("http") and urlsplit(url).netloc != own}
    assert not strangers, strangers


def check_report(browser, page):
    browser.driver.get(page.as_uri())
    browser.shoot("report")
    browser.shoot("report-dark", dark=True)
    browser.shoot("report-narrow", width=390)
    browser.check_access("report")
    browser.check_quiet("report")
    strangers = [url for url in browser.requests() if urlsplit(url).scheme.startswith("http")]
    assert not strangers, strangers
    assert page.stat().st_size < 2_000_000


def main(m2m, out):
    out = Path(out).resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    subprocess.run([m2m, "demo", "--out", out / "demo"], check=True, stdout=subprocess.DEVNULL)
    release, page = out / "demo/people.m2m", out / "report.html"
    subprocess.run([m2m, "report", release, "-o", page], check=True)
    server = subprocess.Popen([m2m, "explore", release, "--no-open"], stdout=subprocess.PIPE, text=True)
    browser = Browser(out)
    try:
        check(browser, server.stdout.readline().strip(), out)
        check_report(browser, page)
    except BaseException:
        browser.driver.save_screenshot(str(out / "failed.png"))
        raise
    finally:
        browser.close()
        server.terminate()
        server.wait()
    print(f"{len(list(out.glob('*.png')))} screenshots in {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Crawls a site of 200 pages at a port, 0 for any, and prints the port and which pages were requested.

With a third word, the scheduler is that of scrapy-redis, which keeps the filter if the word is "persist"."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import scrapy
from scrapy.crawler import CrawlerProcess

PAGES = 200


class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        requested.append(self.path)
        number = int(self.path[1:])
        links = [number * 2 + 1, number * 2 + 2, number // 2, (number * 7) % PAGES]
        body = "".join(f'<a href="/{link}">{link}</a>' for link in links if link < PAGES).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


class Spider(scrapy.Spider):
    name = "spider"

    def parse(self, response):
        yield from response.follow_all(css="a")


requested = []
site = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Site)
Thread(target=site.serve_forever, daemon=True).start()
process = CrawlerProcess({
    "DUPEFILTER_CLASS": "bloom.BloomDupeFilter",
    "BLOOM_URL": f"redis://127.0.0.1:{sys.argv[1]}",
    "BLOOM_KEY": "crawl:seen",
    "DOWNLOAD_DELAY": 0,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    **({
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "REDIS_URL": f"redis://127.0.0.1:{sys.argv[1]}",
        "SCHEDULER_PERSIST": sys.argv[3] == "persist",
    } if len(sys.argv) > 3 else {}),
})
process.crawl(Spider, start_urls=[f"http://127.0.0.1:{site.server_port}/0"])
process.start()
print("\n".join([str(site.server_port), *requested]))

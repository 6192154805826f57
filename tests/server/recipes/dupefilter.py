import hashlib
import sys


class Fingerprinter:
    def fingerprint(self, request):
        return hashlib.sha1(request.encode()).digest()


class Crawler:
    settings = {"BLOOM_URL": f"redis://127.0.0.1:{sys.argv[1]}", "BLOOM_KEY": "crawl:seen"}
    request_fingerprinter = Fingerprinter()


class Spider:
    crawler = Crawler


def crawl(requests):
    """What a crawler fetches of these."""
    filter = BloomDupeFilter.from_crawler(Crawler)
    fetched = [request for request in requests if not filter.request_seen(request)]
    filter.close("finished")
    return fetched


requests = [f"http://site.example/{n}" for n in range(1000)]
assert crawl(requests[:500] + requests[:500]) == requests[:500]
# Another one, and the first again.
assert crawl(requests) == requests[500:]
assert crawl(requests) == []
# As the scheduler of scrapy-redis uses it. A new filter has the parameters of the first one.
filter = BloomDupeFilter.from_spider(Spider)
assert filter.request_seen(requests[0])
filter.clear()
assert not filter.request_seen(requests[0]) and filter.request_seen(requests[0])
assert filter.server.execute_command("BF.INFO", "crawl:seen", "CAPACITY") in (1000000, [1000000])

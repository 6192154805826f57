"""The class that a filter for Scrapy extends."""


class BaseDupeFilter:
    pass

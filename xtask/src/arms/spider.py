"""A spider that fetches a list, as Scrapy's documentation shows one, with AutoThrottle switched on."""

import scrapy


class Arms(scrapy.Spider):
    name = "arms"
    custom_settings = {
        "AUTOTHROTTLE_ENABLED": True,
        "ROBOTSTXT_OBEY": False,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
    }

    def start_requests(self):
        with open(self.urls) as urls:
            for url in urls:
                yield scrapy.Request(url.strip(), dont_filter=True)

    async def start(self):
        for request in self.start_requests():
            yield request

    def parse(self, response):
        return None

"""What browser tests do with a page and its broker.

Rule of this file: while Streamlit draws the page anew, elements of the time before stay beside the new ones, marked as
stale. What is looked for is ``current``.
"""

from playwright.sync_api import expect

from experiments.chromium import current
from paceline import wire
from paceline.kafka.clients import producer
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics


def shows(tab, words, scope=""):
    """Wait until exactly one current element has these words, from the first to the last, or matches them."""
    expect(current(tab, scope).get_by_text(words, exact=True)).to_have_count(1)


def shows_a_heatmap(tab):
    expect(current(tab).locator(".heatmaplayer image")).to_have_count(1)


def publish(address, numbered):
    settings = BrokerSettings(brokers=(address,))
    ensure_topics(settings)
    client = producer(settings, "test")
    for topic, event in numbered:
        key = wire.key_of(topic, event)
        client.send(topic.name, wire.encode(event), key=key.encode() if key else None)
    client.flush()
    client.close()

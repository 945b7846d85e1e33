"""Decoders of hostile bytes that need no JVM: one surface each, whose case raises where something escapes.

A case makes good input, damaged input and input that is whole but absurd, and holds the decoder to: no exception but
the errors it names, every bad record with a known reason, every good one unchanged. Good ones are made by construction.
"""

from __future__ import annotations

from fuzz.bodies import body, bomb
from fuzz.broker_files import consume_queue, consumer_offsets
from fuzz.message_lines import message_lines
from fuzz.outputs import drawing, outputs, page
from fuzz.peers import client, name_server, resolver, webhook
from fuzz.planted import planted
from fuzz.pulls import pulls
from fuzz.records import commit_log, properties
from fuzz.remoting import frame_is_read_as_it_was_written, remoting
from fuzz.settings_files import settings, yaml_bomb
from fuzz.tally import Surface
from fuzz.text_files import gzipped_file, large_line, text_file

SURFACES = (
    Surface("commit log records", commit_log),
    Surface("bodies", body),
    Surface("decompression bombs", bomb, share=5000),
    Surface("properties", properties),
    Surface("landing files", text_file, share=20),
    Surface("landing files, gzipped", gzipped_file, share=40),
    Surface("large lines", large_line),
    Surface("lines of messages", message_lines),
    Surface("consumerOffset.json", consumer_offsets),
    Surface("consume queue files", consume_queue, share=10),
    Surface("planted files of a store", planted, share=10),
    Surface("answers over remoting", remoting),
    Surface("answers to pulls", pulls),
    Surface("good frames of remoting", frame_is_read_as_it_was_written, share=10),
    Surface("settings", settings, share=40),
    Surface("settings that expand", yaml_bomb, share=5000),
    Surface("names in outputs", outputs, share=4),
    Surface("names on the report's page", page, share=20),
    Surface("names in drawings", drawing, share=2000),
    Surface("webhooks", webhook, share=1000),
    Surface("endpoints of producers", resolver, share=1000),
    Surface("name servers", name_server, share=1000),
    Surface("clients of serve's endpoint", client, share=1000),
)

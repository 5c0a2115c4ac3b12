"""After how many seconds without a message something is silent, named by what is silent.

Rule of this file: numbers alone. Where two programs judge the same thing they take the same number; a thing that is
judged for another purpose has a name of its own.
"""

#: The brokers: one that is there answers a heartbeat every 1.5 s, and a fetch every half second.
KAFKA_SILENT_S = 10.0
#: A running job, as the page and `paceline top` show it.
JOB_SILENT_S = 20.0
#: The stream workers, which turn steps and samples into windows of ten seconds: so much is sent without one.
WORKERS_SILENT_S = 25.0
#: A launch, by the clock of one that reports meanwhile: it is over.
LAUNCH_SILENT_S = 30.0
#: A node, while a session is recorded.
CLIENT_SILENT_S = 30.0
#: A job that sends no rows of collectives, full or not.
ROWS_SILENT_S = 60.0
#: All windows: nothing makes suggestions.
WINDOWS_SILENT_S = 120.0
#: A job, node, sender or forecast that `/metrics` has series of: they are left out.
SERIES_SILENT_S = 300.0
#: A node, for its condition in Kubernetes: one with GPUs is sampled all the time, another described every ten minutes.
NODE_SILENT_S, NODE_WITHOUT_GPUS_SILENT_S = 300.0, 1_500.0
#: A run of a job: it is over, and ranks that come then belong to another.
RUN_SILENT_S = 600.0
#: A rank that takes a trace: it has failed.
CAPTURE_SILENT_S = 900.0
#: A job, for GPUs that it was described to be on: those that are idle and empty are no longer its.
PLACED_JOB_SILENT_S = 900.0

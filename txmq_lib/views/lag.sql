-- Every consumer queue with its lag and what its group does with it; `lag_relation` in lag.py says what it is given.
(
-- Named once each: a scan may be a stream.
WITH known AS MATERIALIZED (SELECT * FROM reporting),
ends AS MATERIALIZED (SELECT * FROM queues),
clocks AS (
    SELECT broker_name, least({now}, max(seen)) AS judged_timestamp, judged_timestamp - {span} AS begin,
        max(seen) FILTER (is_stored) AS stored_until
    FROM (SELECT broker_name, highest_store_timestamp AS seen, true AS is_stored FROM ends
        UNION ALL SELECT broker_name, last_report_timestamp, false FROM known)
    GROUP BY ALL),
placed AS (
    SELECT p.*, c.* EXCLUDE (broker_name), coalesce(f.is_end_known, false) AS is_end_known
    FROM {positions} AS p LEFT JOIN clocks AS c USING (broker_name)
    LEFT JOIN ends AS f USING (broker_name, topic, queue_id)),
reported AS (
    SELECT {queue}, ts, next_offset, begin, row(ts, landed_pass, landing_order) AS place,
        max(CASE WHEN NOT is_increase_only THEN row(ts, landed_pass, landing_order) END)
            FILTER (ts <= begin) OVER (PARTITION BY {queue}) AS set_at
    FROM reports JOIN clocks USING (broker_name) WHERE ts <= judged_timestamp),
-- What was held is the newest set's offset, or a larger one reported after it (R84, R102).
told AS (
    SELECT {queue}, min(ts) FILTER (ts > begin) AS first_ts,
        max(next_offset) FILTER (ts <= begin AND (set_at IS NULL OR place >= set_at)) AS offset_before,
        arg_min(next_offset, place) FILTER (ts > begin) AS first_offset
    FROM reported GROUP BY ALL),
started AS (
    SELECT p.*,
        CASE WHEN updated_timestamp <= begin OR offset_before IS NOT NULL THEN begin ELSE first_ts END AS then_ts,
        CASE WHEN updated_timestamp <= begin THEN next_offset ELSE coalesce(offset_before, first_offset)
            END AS then_offset
    FROM placed AS p LEFT JOIN told USING ({queue})),
passed AS (
    SELECT {queue}, min(m.queue_offset) FILTER (m.store_timestamp > begin) AS end_at_begin,
        min(m.queue_offset) FILTER (m.store_timestamp > then_ts) AS end_then
    FROM started AS s JOIN stored AS m USING (broker_name, topic, queue_id) WHERE s.lag > 0 GROUP BY ALL),
waited AS (
    SELECT {queue}, min(m.store_timestamp) AS waiting_since
    FROM started AS s JOIN waiting AS m USING (broker_name, topic, queue_id)
    WHERE s.lag > 0 AND m.queue_offset = s.next_offset GROUP BY ALL),
popping AS (
    SELECT DISTINCT broker_name, consumer_group, topic AS retry_topic FROM known
    WHERE starts_with(topic, '{RETRY_PREFIX}' || consumer_group)),
judged AS (
    SELECT s.*, waiting_since, EXISTS (
            SELECT 1 FROM popping AS r
            WHERE r.broker_name = s.broker_name AND r.consumer_group = s.consumer_group AND ({is_pop_retry})) AS is_pop,
        coalesce(end_at_begin, highest_offset) AS end_at_begin,
        coalesce(end_then, highest_offset) AS end_then, rewinds[-1] AS last_rewind
    FROM started AS s LEFT JOIN passed USING ({queue}) LEFT JOIN waited USING ({queue})),
missed AS (
    SELECT DISTINCT k.broker_name, k.consumer_group, e.topic, e.queue_id, e.next_offset AS highest_offset,
        e.lowest_kept_offset
    FROM known AS k JOIN ends AS e USING (broker_name, topic)
    -- Queue -1 stands for how far a log was read.
    WHERE e.queue_id >= 0 AND e.next_offset > 0 AND NOT EXISTS (
        SELECT 1 FROM known AS o WHERE o.broker_name = k.broker_name AND o.consumer_group = k.consumer_group
            AND o.topic = e.topic AND o.queue_id = e.queue_id))
SELECT * EXCLUDE (begin, stored_until, is_end_known, then_ts, then_offset, waiting_since, end_at_begin, end_then,
        last_rewind, is_pop),
    CASE WHEN lag = 0 OR waiting_since > judged_timestamp THEN 0
        ELSE epoch_ms(judged_timestamp) - epoch_ms(waiting_since) END AS lag_ms,
    CASE WHEN state = '{OFFSET_BEYOND_END}'
         THEN CASE WHEN is_end_known OR updated_timestamp <= stored_until THEN '{LAG_AHEAD}'
              ELSE '{LAG_UNKNOWN}' END
         WHEN state = '{OFFSET_BELOW_OLDEST}' THEN '{LAG_BELOW_OLDEST}'
         WHEN state = '{OFFSET_UNKNOWN}' THEN '{LAG_UNKNOWN}'
         WHEN last_rewind.ts > begin AND next_offset < last_rewind.from_offset THEN '{LAG_REWOUND}'
         WHEN lag = 0 OR next_offset >= end_at_begin THEN '{LAG_FINE}'
         WHEN is_pop THEN '{LAG_POP}'
         WHEN then_ts IS NULL OR (next_offset <= then_offset AND then_ts > begin) THEN '{LAG_UNKNOWN}'
         WHEN next_offset <= then_offset AND last_report_timestamp > begin THEN '{LAG_STALLED}'
         WHEN next_offset <= then_offset THEN '{LAG_STOPPED}'
         WHEN lag > end_then - then_offset THEN '{LAG_FALLING_BEHIND}'
         ELSE '{LAG_FINE}' END AS lag_state,
    ends_with(consumer_group, '{BROADCAST_SUFFIX}') AS is_broadcast
FROM judged
UNION ALL BY NAME
SELECT *, '{OFFSET_UNKNOWN}' AS state, '{LAG_NEVER_COMMITTED}' AS lag_state, 0 AS rewind_count,
    ends_with(consumer_group, '{BROADCAST_SUFFIX}') AS is_broadcast
FROM missed)

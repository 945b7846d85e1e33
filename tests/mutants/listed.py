"""Ways in which the rules could be wrong, each a text put for another in one file: the suite must see every one."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """`new` for the one `old` in txmq_lib/`file`; `tests` are the files under tests/ that must go red."""

    file: str
    what: str
    old: str
    new: str
    tests: tuple[str, ...]


SETTLE = ("rules/test_settle.py", "rules/test_settle_order.py")
CHECK, PENDING, VERDICT = ("rules/test_check.py",), ("rules/test_pending.py",), ("rules/test_verdict.py",)
FRONTIER_VERDICT = ("rules/test_verdict_frontier.py",)
EFFECTS, OFFSETS, ACKS = ("rules/test_effects.py",), ("rules/test_offsets.py",), ("rules/test_acks.py",)
WORDS, INVARIANTS = ("rules/test_offset_words.py",), ("rules/test_invariants.py",)
CONTRACT, TAKE_BACK = ("rules/test_contract.py",), "end_to_end/test_take_back.py"
KINDS, LATE = ("model/test_offset_kinds.py",), "end_to_end/test_late_evidence.py"
ORPHANS, TRACE = "end_to_end/test_orphans.py", ("views/test_trace.py",)
RIVALS = "end_to_end/test_copies_and_rivals.py"
SENT_ONCE = "end_to_end/test_to_broker.py::test_a_transaction_has_one_end_however_many_copies_of_its_half_land"
ROLES = "end_to_end/test_roles.py"
ONCE = "end_to_end/test_exactly_once.py"
CONFLICTS = ("rules/test_offsets.py", "model/test_offsets_model.py")

MUTANTS = (
    # --- settle: who is taken, in which order, and who is refused (R11-R18)
    Mutant("rules/settle.py", "a rollback before a commit of the same time", 'F.col("commit_or_rollback"), F.col("landed_pass")',
           'F.col("commit_or_rollback").desc(), F.col("landed_pass")', SETTLE),
    Mutant("rules/settle.py", "the last end decides", "is_first = F.row_number().over(in_order) == 1",
           'is_first = F.row_number().over(in_order) == F.count("*").over(in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))', SETTLE),
    Mutant("rules/settle.py", "a decided transaction is decided again", '& is_first & F.col("prior_decision").isNull()', "& is_first", SETTLE),
    Mutant("rules/settle.py", "ends by landing, not by time", 'F.col("ts"), F.col("commit_or_rollback"), F.col("landed_pass")',
           'F.col("landed_pass"), F.col("ts"), F.col("commit_or_rollback")', SETTLE),
    Mutant("rules/settle.py", "any producer group may end (R16)", '.when(group_differs, "PRODUCER_GROUP_WRONG")', "", SETTLE),
    Mutant("rules/settle.py", "any queue offset may be named (R16)", '!= F.col("half_queue_offset"), "STATE_TABLE_OFFSET_WRONG"',
           '< 0, "STATE_TABLE_OFFSET_WRONG"', SETTLE),
    Mutant("rules/settle.py", "immunity ends at its last millisecond (R15)", "is_late & (age_at_end > immunity", "is_late & (age_at_end >= immunity", SETTLE),
    Mutant("rules/settle.py", "answers to checks expire as well (R15)", '.isNotNull() & ~F.col("from_transaction_check")', ".isNotNull()", SETTLE),
    Mutant("rules/settle.py", "immunity below the timeout counts (R15)", 'return F.greatest(milliseconds(java_long(F.col("check_immunity"))), timeout)',
           'return F.coalesce(milliseconds(java_long(F.col("check_immunity"))), timeout)', SETTLE),
    Mutant("rules/settle.py", "the age of an end is that of the pass", 'age_at_end = F.unix_millis("ts") - F.unix_millis("born_timestamp")',
           'age_at_end = age_ms(now, F.col("born_timestamp"))', SETTLE),
    Mutant("rules/settle.py", "an end without a half is refused at once", '.when(~has_half & has_waited, "HALF_NEVER_LANDED")',
           '.when(~has_half, "HALF_NEVER_LANDED")', SETTLE),
    Mutant("rules/settle.py", "an end without a half is held for ever", '.when(~has_half & has_waited, "HALF_NEVER_LANDED")', "", SETTLE),
    Mutant("rules/settle.py", "an unknown is judged (R13)", ".when(_is_unknown(), F.lit(None))\n        .when(~has_half & F", ".when(~has_half & F", SETTLE),
    Mutant("rules/settle.py", "system topics may be restored to", '.when(F.col("real_topic").isin(*TRANSACTION_TOPICS), "REAL_TOPIC_IS_SYSTEM")', "", SETTLE),
    Mutant("rules/settle.py", "contradicting ends pass for repeated ones", '.when(F.col("_deciding") == F.col("decision"), OUTCOME_REPEATED)',
           ".when(F.lit(True), OUTCOME_REPEATED)", SETTLE),
    Mutant("rules/settle.py", "an end means every half at its place", 'is_meant = F.col("_is_alone") | (F.col("half_queue_offset") == F.col("tran_state_table_offset"))',
           "is_meant = F.lit(True)", SETTLE),
    Mutant("rules/settle.py", "two halves of one place and offset are both meant", '~F.col("half_queue_offset").eqNullSafe(F.col("_before"))', "F.lit(True)", SETTLE),
    Mutant("rules/settle.py", "ids are never looked at", '.when(id_differs, "TRANSACTION_ID_WRONG")', "", SETTLE),
    Mutant("rules/settle.py", "ids are looked at everywhere", 'id_differs = F.col("is_contested") & (', "id_differs = (", SETTLE),
    Mutant("rules/settle.py", "halves in quarantine claim no place", 'is_rival | F.coalesce("_is_refused", F.lit(False))', "is_rival", SETTLE),
    Mutant("pipeline/decisions.py", "settle looks at ends of the newest copy alone", "copies = halves.where(_is_of(row))",
           'copies = halves.where(F.col("commit_log_offset") == row["commit_log_offset"])', (f"{RIVALS}::test_settle_reckons_with_an_end_of_another_copy_that_has_landed_and_is_not_judged_yet",)),
    Mutant("pipeline/to_broker.py", "each copy has an end of its own", " and _transaction(row) not in sent", "", (SENT_ONCE,)),
    Mutant("pipeline/to_broker.py", "a refused end is the only one", "not in refused]", "not in set()]", (SENT_ONCE,)),
    # --- committed messages without a half
    Mutant("rules/orphans.py", "what consumers sent back needs a half", "(SYSTEM_TOPIC_PREFIX, *SENT_BACK)", "(SYSTEM_TOPIC_PREFIX,)", (f"{ORPHANS}::test_only_what_a_broker_committed_into_a_real_topic_needs_a_half",)),
    Mutant("rules/orphans.py", "what was delivered late needs a half", ' & (F.col("prepared_transaction_offset") > 0)', "", (f"{ORPHANS}::test_only_what_a_broker_committed_into_a_real_topic_needs_a_half",)),
    Mutant("rules/orphans.py", "any half at the place is the one", '        & F.coalesce(messages["transaction_id"] == there["_id"], F.lit(True))\n', "", (f"{ORPHANS}::test_only_what_a_broker_committed_into_a_real_topic_needs_a_half",)),
    Mutant("rules/orphans.py", "what retention took before the first landing is a problem", "F.when(is_before, ORPHAN_BEFORE_FIRST)", "F.when(F.lit(False), ORPHAN_BEFORE_FIRST)",
           (f"{ORPHANS}::test_what_lies_below_all_that_was_ever_read_is_no_problem_until_something_lower_is_read",)),
    Mutant("pipeline/orphans.py", "an orphan stays one whatever lands", "still = without_half(waiting, _halves([current.new_rows(table) for table in OF_HALVES]))", "still = waiting",
           (f"{ORPHANS}::test_what_lies_below_all_that_was_ever_read_is_no_problem_until_something_lower_is_read",)),
    # --- what trace says to do
    Mutant("views/advice.py", "a verdict is never overtaken", "if _is_overtaken(row, events):", "if False:", TRACE),
    Mutant("views/advice.py", "what was decided is asked for once more", "(stands := decided(verdict, events)) is not None", "(stands := None) is not None", TRACE),
    Mutant("views/deciding.py", "a resume is never used up", '(event.time or "") >= given_up)', "True)", TRACE),
    # --- check: who is due (R44-R52, R61-R63)
    Mutant("rules/check.py", "due at its very timeout (R48)", "return (age <= check_limit_ms(policies))", "return (age < check_limit_ms(policies))", CHECK),
    Mutant("rules/check.py", "one from the future waits (R52)", " & ~is_from_future", "", CHECK),
    Mutant("rules/check.py", "immunity -1 is none at all (R49)", "seconds.isNull() | (seconds == -1)", "seconds.isNull()", CHECK),
    Mutant("rules/check.py", "an interval must be exceeded", ") >= check_interval_ms(policies)", ") > check_interval_ms(policies)", CHECK),
    Mutant("rules/check.py", "a backoff grows one check too soon", 'F.col("check_times") - 1)', 'F.col("check_times"))', CHECK),
    Mutant("rules/check.py", "a backoff has no end", 'F.least(grown, F.lit(float(backoff.longest_ms)))', "grown", CHECK),
    Mutant("rules/check.py", "the last check has no grace (R61)", ".when(is_over_limit & is_due, GIVEN_UP_CHECK_MAX)", ".when(is_over_limit, GIVEN_UP_CHECK_MAX)",
           (*CHECK, "end_to_end/test_passes_model.py")),
    Mutant("rules/check.py", "one check too many", 'F.col("check_times") >= policies.column("transaction_check_max")\n    is_engine',
           'F.col("check_times") > policies.column("transaction_check_max")\n    is_engine', CHECK),
    Mutant("rules/check.py", "txmq gives up for a broker", "F.when(is_engine & reason.isNotNull(), GIVE_UP)", "F.when(reason.isNotNull(), GIVE_UP)", CHECK),
    Mutant("rules/check.py", "nothing expires", "F.when(is_expired, GIVEN_UP_EXPIRED).when(", "F.when(", CHECK),
    Mutant("rules/check.py", "waiting counts as being asked (R63)", 'F.col("check_times") + is_asked.cast("int")', 'F.col("check_times") + 1', CHECK),
    Mutant("rules/check.py", "the number of the check before", '(F.col("check_times") + 1).alias("check_times"),', 'F.col("check_times").alias("check_times"),', CHECK),
    # --- pending: what is one transaction, and what closes it (R39, R56, R64, R73)
    Mutant("rules/pending.py", "the oldest copy is asked about (R56)", 'F.max_by(F.struct(*NEWEST), "commit_log_offset")',
           'F.min_by(F.struct(*NEWEST), "commit_log_offset")', PENDING),
    Mutant("rules/pending.py", "what was asked is forgotten when a copy lands", 'asked = pending.select(*TRANSACTION_KEY, *CHECK_STATE)',
           'asked = pending.where("1 = 0").select(*TRANSACTION_KEY, *CHECK_STATE)', PENDING),
    Mutant("rules/pending.py", "a resumed half stays given up (R73)", 'F.coalesce(F.col("_newest") <= F.col("_given_up_at"), F.lit(True))', "F.lit(True)", PENDING),
    Mutant("rules/pending.py", "a visible message of another transaction closes", "return joined.where(same_id)", "return joined", PENDING),
    Mutant("rules/pending.py", "any message prepared there counts as committed", "messages = visible.where(is_committed)", "messages = visible", (*PENDING, *VERDICT)),
    Mutant("rules/pending.py", "a given-up row has a real topic of its own", 'join_transaction(_places_of(given_up), topics, "inner")',
           'given_up.select(*TRANSACTION_KEY, "real_topic", "commit_log_offset")', PENDING),
    Mutant("rules/pending.py", "ops close nothing", "return by_op.unionByName(by_message)", "return by_message", PENDING),
    Mutant("rules/transaction.py", "a missing producer group matches none", "F.col(name).eqNullSafe(F.col(", 'F.col(name) == (F.col(', ("rules/test_transaction.py",)),
    # --- effects: what a decision writes (R20, R25, R26, R70)
    Mutant("rules/effects.py", "rollbacks become visible", 'decided.where(F.col("decision") == COMMIT)', "decided", EFFECTS),
    Mutant("rules/effects.py", "a restored message keeps REAL_TOPIC (R20)", "(PROPERTY_REAL_TOPIC, PROPERTY_REAL_QUEUE_ID, PROPERTY_TRAN_MSG)",
           "(PROPERTY_REAL_QUEUE_ID, PROPERTY_TRAN_MSG)", EFFECTS),
    Mutant("rules/effects.py", "a restored message keeps its type bits", ".bitwiseOR(SYS_FLAG_COMMIT)", "", EFFECTS),
    Mutant("rules/effects.py", "queue offsets begin at 1", "orderBy(*order)) - 1)", "orderBy(*order)))", EFFECTS),
    Mutant("rules/effects.py", "every pass numbers from 0", 'F.coalesce("_start", F.lit(0)) +', "F.lit(0) +", EFFECTS),
    Mutant("rules/effects.py", "given-up messages do not tell how often asked (R70)", 'F.map_concat(others, asked).alias("properties")',
           'F.col("properties").alias("properties")', EFFECTS),
    Mutant("rules/effects.py", "of two halves at one place any is restored", "F.when(is_first, first).otherwise(later)", "first", EFFECTS),
    Mutant("rules/offset_words.py", "every offset is there", '"getbit(mask, {_BIT})") == 1', '"getbit(mask, {_BIT})") >= 0', WORDS),
    Mutant("rules/offset_words.py", "ranks begin anew with each word", 'F.col("before") + lower', "lower", WORDS),
    Mutant("rules/offset_words.py", "the largest bit is lost", 'sequence(0, 63)', 'sequence(0, 62)', WORDS),
    Mutant("rules/invariants.py", "a commit that is there twice goes unseen", 'F.col("commits").eqNullSafe(F.col("messages")) & ', "", INVARIANTS),
    Mutant("rules/invariants.py", "a commit beside its message goes unseen", ' & F.col("commits_hash").eqNullSafe(F.col("messages_hash"))', "", INVARIANTS),
    Mutant("rules/invariants.py", "a place that is there twice goes unseen", 'is_sound & F.col("messages").eqNullSafe(F.col("distinct_places"))', "is_sound", INVARIANTS),
    # --- offsets of queues by kind
    Mutant("rules/offset_kinds.py", "an open rewind needs no look", 'F.col("rewound_from_offset").isNotNull()', "F.lit(False)", KINDS),
    Mutant("rules/offset_kinds.py", "two clients are one", '(F.col("clients") > 1)', '(F.col("clients") > 2)', KINDS),
    Mutant("rules/offset_kinds.py", "nobody's reports are the client's", ' & F.col("has_nameless")', ' & F.lit(False)', KINDS),
    Mutant("rules/offset_kinds.py", "clients before this pass are forgotten", "told.unionByName(kept)", "told.unionByName(kept.limit(0))", KINDS),
    Mutant("rules/offset_kinds.py", "what was held before this pass is forgotten", 'F.greatest(F.max("next_offset").over(before), "known_offset")',
           'F.max("next_offset").over(before)', KINDS),
    Mutant("rules/offset_kinds.py", "a repeated offset moves", 'F.col("next_offset") > F.col("held")', 'F.col("next_offset") >= F.col("held")', KINDS),
    # --- verdicts (design section 3)
    Mutant("rules/verdict.py", "two visible ones are one", 'F.col("visible_count") >= 2', 'F.col("visible_count") >= 3', VERDICT),
    Mutant("rules/verdict.py", "two ops are no conflict", '(F.col("op_count") >= 2)', '(F.col("op_count") >= 3)', VERDICT),
    Mutant("rules/verdict.py", "a lost op goes unseen (R76)", '(COMMITTED_OP_LOST, (F.col("visible_count") == 1) & (F.col("op_count") == 0)),', "", VERDICT),
    Mutant("rules/verdict.py", "giving up comes before rolling back",
           '        (ROLLED_BACK, F.col("op_count") >= 1),\n        (DISCARDED, F.col("is_discarded")),',
           '        (DISCARDED, F.col("is_discarded")),\n        (ROLLED_BACK, F.col("op_count") >= 1),', VERDICT),
    Mutant("rules/verdict.py", "a rollback is told where nobody has read", '& F.col("_may_have_been_visible")', "& F.lit(False)", FRONTIER_VERDICT),
    Mutant("rules/verdict.py", "a store's word counts for files", 'F.coalesce("_knows_end", F.lit(False)) &', "F.lit(True) &", FRONTIER_VERDICT),
    Mutant("rules/verdict.py", "expired at the reserved time itself", 'F.unix_millis("born_timestamp") < born_before', 'F.unix_millis("born_timestamp") <= born_before',
           (*VERDICT, *FRONTIER_VERDICT)),
    Mutant("rules/verdict.py", "a clock that ran ahead expires all", 'F.least(highest, F.lit(now))', "highest", FRONTIER_VERDICT),
    Mutant("rules/figures.py", "a resumed half stays discarded (R73)", '& is_final).alias("is_discarded")', ').alias("is_discarded")', VERDICT),
    Mutant("rules/figures.py", "a message in any topic makes visible", 'message["real_topic"] == F.col("real_topic")', 'F.lit(True)', VERDICT),
    # --- offsets and acknowledgements (R84, R102, R105-R107)
    Mutant("rules/offsets.py", "resets are ignored", 'is_set = ~F.col("is_increase_only")', "is_set = F.lit(False)", OFFSETS),
    Mutant("rules/offsets.py", "offsets may go back by themselves", 'F.max(F.struct("set_number", "next_offset")).over(so_far)["next_offset"]',
           'F.col("next_offset")', OFFSETS),
    Mutant("rules/offsets.py", "lag may be negative (R101)", "return F.greatest(F.try_subtract(highest_offset, next_offset), F.when(highest_offset.isNotNull(), F.lit(0)))",
           "return F.try_subtract(highest_offset, next_offset)", OFFSETS),
    Mutant("rules/offsets.py", "late reports are not ignored", "earliest_later_set < landing", "earliest_later_set > landing", OFFSETS),
    Mutant("rules/offsets.py", "no queue is ever replayed", '(F.col("first") <= F.col("last_report"))', "F.lit(False)", OFFSETS),
    Mutant("rules/offset_conflicts.py", "any two clients are in conflict", "is_near = F.unix_millis", "is_near = F.lit(True) | F.unix_millis", CONFLICTS),
    Mutant("rules/offset_conflicts.py", "a window is exceeded at its length", "<= window_ms\n    # Two reports", "< window_ms\n    # Two reports", CONFLICTS),
    Mutant("rules/acks.py", "the largest unacknowledged offset is safe (R107)", 'smallest_left = F.min(F.when(', "smallest_left = F.max(F.when(", ACKS),
    Mutant("rules/acks.py", "nothing left: the highest taken itself", 'F.try_add(F.max("taken"), F.lit(1))', 'F.max("taken")', ACKS),
    Mutant("rules/acks.py", "a dropped queue still reports", '.where(F.col("is_held") & F.col("event").isin(', '.where(F.col("event").isin(', ACKS),
    # --- what lands (R1-R9, R26, R27, R32; landing contract)
    Mutant("rules/prepare.py", "TRAN_MSG is case sensitive (R1)", 'F.lower(F.coalesce(property_of(PROPERTY_TRAN_MSG), F.lit("")))', "property_of(PROPERTY_TRAN_MSG)",
           ("rules/test_prepare.py",)),
    Mutant("rules/prepare.py", "timer messages become halves (R8)", 'fault(has_timer, "TIMER_IN_TRANSACTION", F.lit("timer properties divert a half (R8)")),', "",
           ("rules/test_prepare.py",)),
    Mutant("rules/op.py", "an op of any tag closes (R32)", 'F.when(F.col("tags").eqNullSafe(OP_TAG), F.make_valid', "F.when(F.lit(True), F.make_valid", ("rules/test_op.py",)),
    Mutant("rules/op.py", "a torn token becomes 0 (R31)", 'F.when(piece.rlike(r"^[0-9]{1,19}\\z"), piece.try_cast("bigint"))',
           'F.coalesce(piece.try_cast("bigint"), F.lit(0))', ("rules/test_op.py",)),
    Mutant("rules/half.py", "a half without UNIQ_KEY has no transaction", 'F.coalesce(property_of(PROPERTY_UNIQ_KEY), F.col("offset_msg_id"))',
           "property_of(PROPERTY_UNIQ_KEY)", ("rules/test_half.py",)),
    Mutant("rules/duplicates.py", "other content under the same key passes for the same", "earlier_hash == F.col(\"content_hash\"), F.lit(DUPLICATE)",
           "F.lit(True), F.lit(DUPLICATE)", ("rules/test_duplicates.py",)),
    Mutant("rules/duplicates.py", "nulls are no part of a content", 'F.concat(*[F.col(name).isNull().cast("int").cast("string") for name in columns])', 'F.lit("")',
           ("rules/test_duplicates.py",)),
    Mutant("pipeline/landing_events.py", "what landed before is known by its hash alone", '_told(current, table, broker_name).withColumn("content_hash", event_hash(content))',
           "_told(current, table, broker_name)", (f"{RIVALS}::test_a_file_landed_before_hashes_told_nulls_apart_adds_nothing_when_it_lands_again",)),
    Mutant("rules/frontier.py", "a frontier goes back", 'F.greatest("next_offset", "_next_offset")', 'F.col("next_offset")', ("rules/test_frontier.py",)),
    # --- JSON of brokers and name servers (R89)
    Mutant("fastjson.py", "half a surrogate pair stays", 'json.loads(text.encode("utf-8", "replace"))', "document", ("plain/test_remoting.py",)),
    Mutant("fastjson.py", "keys without quotes are no JSON", '_STRING_OR_NUMBER.sub(_quote_bare_key, data.decode("utf-8"))',
           'data.decode("utf-8")', ("plain/test_consumer_offset_file.py",)),
    # --- the landing contract (design section 8)
    Mutant("rules/contract.py", "half a surrogate pair goes into a variant", 'F.regexp_replace("value", SURROGATE, "/u")', 'F.col("value")', CONTRACT),
    Mutant("rules/contract.py", "text behind an object is not seen", 'F.concat(F.lit("["), F.col("value"), F.lit(",{}]"))', 'F.concat(F.lit("["), F.col("value"), F.lit("]"))', CONTRACT),
    Mutant("rules/contract.py", "any bytes are text", 'given.isNotNull() & F.is_valid_utf8("value")', "given.isNotNull()", CONTRACT),
    Mutant("rules/contract.py", "a torn escape is none", 'F.is_valid_utf8("value") & ~_has_torn_escape()', 'F.is_valid_utf8("value")', CONTRACT),
    Mutant("rules/contract.py", "a number passes for a text", 'F.schema_of_variant(given) != "STRING"', 'F.schema_of_variant(given) == "NONE"', CONTRACT),
    Mutant("rules/contract.py", "an offset may have no next one", 'F.col(f"{struct}.{name}") > HIGHEST_OFFSET', 'F.col(f"{struct}.{name}") > 2**63 - 1', CONTRACT),
    Mutant("rules/contract.py", "the quick look passes over braces in texts", '~F.col("value").rlike(ONE_OBJECT),', "", CONTRACT),
    # --- passes beside a take-back
    Mutant("tables/running.py", "a plan carried on looks at nobody", "return _is_apart(current) and", "return (not current.is_own or _is_apart(current)) and", (f"{TAKE_BACK}::test_a_take_back_killed_as_soon_as_it_was_planned_waits_all_the_same",)),
    Mutant("tables/running.py", "a plan may be older than a take-back",
           "return bool(latest) and latest != _plan_note(plan).get(LAST_TAKE_BACK, latest)", "return False",
           (f"{TAKE_BACK}::test_a_plan_that_was_read_before_a_take_back_and_recorded_after_it_is_made_anew",)),
    Mutant("tables/running.py", "an unfinished take-back counts as done", "min(latest, unfinished_number - 1)", "latest",
           (f"{TAKE_BACK}::test_a_pass_killed_as_soon_as_it_was_planned_beside_a_take_back_is_planned_anew",)),
    Mutant("tables/running.py", "a plan is given up though its write landed", " and current.has_landed_nothing()\n", "\n",
           (f"{ONCE}::test_a_write_that_landed_and_failed_behind_its_commit_is_carried_on",)),
    Mutant("tables/running.py", "a plan is given up while another process writes it", "if is_untouched and current.has_fate(GIVEN_UP):", "if is_untouched:",
           (f"{ONCE}::test_a_plan_that_another_process_carries_on_is_not_given_up_by_its_own",)),
    Mutant("tables/running.py", "a plan given up is carried on", "current.is_own or current.has_fate(CARRIED_ON)", "True",
           (f"{ONCE}::test_a_plan_given_up_by_its_own_process_is_carried_on_by_nobody",)),
    Mutant("rules/effects.py", "given-up halves at one place are told for each other", "*place], how", "\"half_commit_log_offset\"], how", EFFECTS),
    Mutant("pipeline/landing.py", "the steps of a plan given up stay free", 'for table, step in _appends(current.arguments["kind"]):',
           "for table, step in ():", (f"{ONCE}::test_a_landing_given_up_while_it_writes_lands_nothing_twice",)),
    Mutant("pipeline/landing_messages.py", "halves behind the frontier are not seen", "start = max(end, beyond.collect()[0][0] or 0)", "start = end",
           (f"{ONCE}::test_halves_made_by_a_landing_that_was_given_up_keep_their_offsets",)),
    Mutant("rules/effects.py", "of two halves at one place one is restored", ".otherwise(later)", "", ("rules/test_effects.py",)),
    # --- the role a broker's rows are made under
    Mutant("pipeline/roles.py", "a role may change", "if is_of_pass and current.settings.for_broker(name).role != role:", "if False:", (f"{ROLES}::test_every_job_that_decides_by_role_refuses_and_those_that_do_not_go_on",)),
    Mutant("pipeline/roles.py", "a store lands under a role that nobody said", "if settings.said_role(name) is None]", "if False]",
           ("plain/test_cli.py::test_no_store_and_no_live_broker_lands_under_a_role_that_nobody_said",)),
    Mutant("pipeline/roles.py", "a warehouse of before has no roles", "        return _of_before(current)", "        return {}",
           (f"{ROLES}::test_a_warehouse_of_before_tells_the_roles_by_what_was_written",)),
    Mutant("tables/running.py", "a plan of another role is carried on", "and _is_as_required(current, require)):", "):",
           (f"{ROLES}::test_a_plan_of_the_other_role_that_a_version_of_before_left_is_not_carried_on",)),
    Mutant("tables/pass_log.py", "what landed before a new role is not judged anew", "if note.get(ROLE_GIVEN, 0) != last_role_given(warehouse):", "if False:",
           (f"{ROLES}::test_an_end_judged_for_an_audited_broker_decides_nothing_once_txmq_decides",)),
    Mutant("pipeline/reconcile_inputs.py", "a broker's ops and messages decide nothing for txmq", "both if by_brokers is None else both.unionByName(by_brokers)", "both",
           (f"{ROLES}::test_what_a_broker_has_decided_is_decided_when_txmq_takes_over",)),
    Mutant("pipeline/take_back.py", "a broker's rows that met txmq's stay in quarantine", "reason = 'KEY_CONFLICT' or job", "job",
           (f"{ROLES}::test_a_broker_landed_as_engine_by_mistake_gets_its_own_verdicts_once_that_is_taken_back",)),
    Mutant("tables/passes.py", "a landing that recorded a role and failed blocks all others", 'NOT_DECIDING = frozenset({"broker"})', "NOT_DECIDING = frozenset()",
           (f"{ROLES}::test_a_landing_that_fails_behind_its_role_blocks_no_other",)),
    Mutant("rules/verdict.py", "a setting corrected changes no verdict", "return transactions_of(placed.where(~_is_expired(policies)))", "return transactions_of(placed.where(F.lit(False)))",
           (f"{ROLES}::test_verdicts_that_a_setting_has_made_are_judged_again_when_it_is_corrected",)),
    # --- what of the past a pass reads
    Mutant("pipeline/pruning.py", "messages of given-up rows are left in the past",
           'halves.select("commit_log_offset").unionByName(given_up.select("commit_log_offset"))', 'halves.select("commit_log_offset")',
           (f"{LATE}::test_a_message_of_a_given_up_row_closes_a_resumed_transaction_whichever_lands_last",)),
    Mutant("pipeline/reconcile_inputs.py", "ops of new halves are left in the past",
           'current.new_rows("op_message").unionByName(near.rows(current, "op_message"))', 'current.new_rows("op_message")',
           (f"{LATE}::test_an_op_that_landed_before_its_half_closes_it",)),
    Mutant("tables/passes.py", "a MERGE reads every file", "partial(merge, within=within)", "partial(merge, within=None)",
           (f"{LATE}::test_a_verdict_is_looked_for_only_in_files_that_can_hold_it",)),
    Mutant("tables/passes.py", "a frontier moves past what was refused", "if _is_taken(commit) and not may_be_taken:", "if False:",
           ("end_to_end/test_exactly_once.py::test_whoever_is_given_up_half_way_tells_nothing_of_what_it_could_not_land",)),
    Mutant("pipeline/reconcile.py", "what is pending weighs nothing", 'pending = current.warehouse.few_bytes("pending_half", current.input_versions["pending_half"])', "pending = 0",
           (f"{LATE}::test_what_is_pending_counts_whatever_the_last_commit_of_its_table_was",)),
    Mutant("pipeline/audit.py", "what lacks proof weighs nothing", '.count() * LEAST_ROW_BYTES', ".count() * 0",
           (f"{LATE}::test_what_lacks_proof_counts_as_much_as_what_is_new",)),
    Mutant("pipeline/maintain.py", "upkeep killed behind its last work stays open", "has_work or is_unfinished", "has_work",
           ("end_to_end/test_maintain.py::test_an_upkeep_killed_behind_its_last_work_is_ended_by_the_next",)),
)  # fmt: skip

/* A take-back beside landings, for Spin: rows that one deletes must not be known to another that is under way.

A landing leaves out what its pinned table has already. So a take-back may delete nothing that an open landing has pinned, and
a landing that pinned before a take-back may write nothing behind it. Both look after their plan has landed; the one that
was recorded later gives way. Claims between processes of one job are claims.pml's; here a plan has one process, which may
die, and the next start carries it on.

code: txmq_lib/passes/runner.py run_passes: make_ready last_done_take_back next_pass _planned _claim_or_abandon _carried_out
code: txmq_lib/passes/exclusion.py in_the_way: unfinished plan_commit plan_commit
code: txmq_lib/passes/exclusion.py is_older_than_take_back: last_take_back plan_commit
code: txmq_lib/pipeline/take_back.py _take_back: delete commit

Seeded faults, each to be found: -DLOOK_FIRST (who looks for others does so before its plan is recorded), -DNO_NOTE (a plan
does not say which take-back it knows), -DNO_LOOK (a take-back looks for nobody). */

#define MOST 6

byte version;                   /* of the pass log: one for each row */
byte landed_at[MOST];           /* where the plan of a landing was recorded, 0 for none */
bool land_open[MOST];
byte taken_at, taken_back;      /* the same of the take-back under way, and the newest that has deleted anything */
bool take_open;
byte done;                      /* the newest take-back that is committed */
bool rows;                      /* whether the broker's rows are in the table */

inline land_in_the_way(me) { is_clear = !(take_open && taken_at < landed_at[me]) }

inline take_in_the_way() {
  d_step {
    is_clear = true;
    n = 0;
    do
    :: n < MOST -> if :: land_open[n] && landed_at[n] < taken_at -> is_clear = false :: else fi; n++
    :: else -> break
    od;
    n = 0
  }
}

proctype Landing(byte me) {
  byte note;
  bool knows, is_clear;

  note = done;
  knows = rows;
#ifdef LOOK_FIRST
  is_clear = !take_open;
#endif
  atomic { version++; landed_at[me] = version; land_open[me] = true }
#ifndef LOOK_FIRST
  land_in_the_way(me);
#endif
  if :: !is_clear -> land_open[me] = false; goto over :: else fi;
#ifndef NO_NOTE
  if :: taken_back > note -> land_open[me] = false; goto over :: else fi;
#endif
  if
  :: !knows -> rows = true
  :: else
  fi;
  /* what it has not landed it has seen: nobody took it back meanwhile */
  atomic { assert(rows); land_open[me] = false; version++ }
over:
  skip
}

proctype Take_back() {
  byte n, mine, i;
  bool is_clear;

  i = 0;
  do
  :: i < 2 ->
     i++;
#ifdef LOOK_FIRST
     atomic {
       is_clear = true;
       n = 0;
       do :: n < MOST -> if :: land_open[n] -> is_clear = false :: else fi; n++ :: else -> break od
     }
#endif
     atomic { version++; taken_at = version; take_open = true; mine = i }
#ifndef LOOK_FIRST
     take_in_the_way();
#endif
#ifdef NO_LOOK
     is_clear = true;
#endif
     if
     :: !is_clear -> take_open = false
     :: else ->
        atomic { rows = false; taken_back = mine };
        atomic { done = mine; take_open = false; version++ }
     fi
  :: else -> break
  od
}

init {
  atomic { rows = true; run Landing(1); run Landing(2); run Landing(3); run Take_back() }
}

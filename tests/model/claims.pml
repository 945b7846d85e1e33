/* The claims on a plan, for Spin: several processes at the plans of one job, of which each may die anywhere.

The job is a landing: it does only what is missing, so a plan whose inputs changed is occupied and abandoned. Delta lets one of
two commits of one number land; that is all the code rests on, and all that is atomic here. A store may carry out one write long after
it has failed to answer it. Lines `code:` name, in order,
what each function calls; tests/model/test_claims_model.py holds the code to them.

code: txmq_lib/passes/runner.py _planned: make_durable append_row plan_commit _recorded_pass
code: txmq_lib/passes/runner.py _claim_or_abandon: has_lost_inputs in_the_way is_older_than_take_back _carry_on abandon
code: txmq_lib/passes/runner.py _carry_on: claim _is_of_another_role
code: txmq_lib/passes/runner.py _carried_out: run drop_untouched
code: txmq_lib/passes/dropping.py drop_untouched: has_landed_nothing occupy_begun claim abandon
code: txmq_lib/passes/claims.py claim: _append_to_log tagged_commit
code: txmq_lib/passes/claims.py append_row: make_durable _append_to_log make_durable
code: txmq_lib/passes/writer.py _write_once: require_open has_landed is_empty _write_through_conflicts _landed_commit _is_occupied
code: txmq_lib/passes/current.py commit: require_open append_row
code: txmq_lib/pipeline/land/landing_pass.py _occupied_and_abandoned: occupy abandon

Seeded faults, each to be found: -DNO_CLAIM (who carries on says nothing), -DNO_OCCUPY (who abandons occupies no step),
-DBLIND (who finds its number occupied goes on), -DNO_OCCUPY_BEGUN (who drops a plan leaves what it began to write to the store). */

#ifndef PROCESSES
#define PROCESSES 3
#endif
#define PLANS 5
#define STEPS 2

#define NOBODY 0
#define CARRIED_ON 1
#define DROPPED 2

#define NOT_YET 0
#define ROWS 1
#define OCCUPIED 2

byte owner[PLANS];              /* row started: who planned it, 0 for nobody */
bool committed[PLANS];
bool abandoned[PLANS];
byte fate[PLANS];               /* the claim that stands */
byte step[PLANS * STEPS];       /* the commit of a step's number */
bool known[PLANS * STEPS];      /* what the pinned table of a step had when the plan was made */
byte rows[STEPS];               /* how often the rows of a step are in its table */
bool watermark[STEPS];
bool is_changed;                /* the inputs of plans made before are no longer what they were */
bool is_before[PLANS];          /* a plan made before that */
bool is_late;                   /* a write was begun, and has not been answered */
byte ended;                     /* processes that have ended, one way or another */

#define AT(plan, s) ((plan) * STEPS + (s))

inline look_for_plan(current) {
  /* next_pass: the newest plan, whether it is open */
  d_step {
    current = 1;
    do
    :: current < PLANS - 1 && owner[current] != 0 && (committed[current] || abandoned[current]) -> current++
    :: else -> break
    od
  }
}

inline abandon(current) { atomic { abandoned[current] = true } }

inline claim(current, what) { atomic { if :: fate[current] == NOBODY -> fate[current] = what :: else fi } }

inline take_and_abandon(current) {
  i = 0;
  do
  :: i < STEPS ->
#ifndef NO_OCCUPY
     atomic { if :: step[AT(current, i)] == NOT_YET -> step[AT(current, i)] = OCCUPIED :: else fi }
#endif
     i++
  :: else -> break
  od;
  abandon(current)
}

inline drop(current) {
  claim(current, DROPPED);
  if :: fate[current] == DROPPED -> abandon(current) :: else fi
}

/* a plan that fails before it has written anything is given up by its own process, unless somebody carries it on */
inline fail_untouched(current) {
  if :: step[AT(current, 0)] == NOT_YET && step[AT(current, 1)] == NOT_YET -> drop(current) :: else fi
}

/* likewise where it does not know whether its first write has landed */
inline fail_in_doubt(current, s) {
  if
  :: step[AT(current, 0)] == NOT_YET && step[AT(current, 1)] == NOT_YET ->
#ifndef NO_OCCUPY_BEGUN
     atomic { if :: step[AT(current, s)] == NOT_YET -> step[AT(current, s)] = OCCUPIED :: else fi };
     if :: step[AT(current, s)] == OCCUPIED -> drop(current) :: else fi
#else
     drop(current)
#endif
  :: else
  fi
}

proctype Late(byte plan; byte s) {
  atomic {
    if
    :: step[AT(plan, s)] == NOT_YET -> step[AT(plan, s)] = ROWS; rows[s]++; assert(rows[s] == 1)
    :: else
    fi
  }
}

proctype Process(byte me; bool may_fail) {
  byte current, i;
  bool is_own, has_0, has_1, has_written;

again:
  look_for_plan(current);
  has_written = false;
  is_own = false;
  if
  :: owner[current] == 0 ->
     /* preview pins the tables; the row follows */
     d_step { has_0 = (rows[0] > 0); has_1 = (rows[1] > 0) }
     atomic {
       if
       :: owner[current] == 0 ->
          owner[current] = me;
          is_before[current] = !is_changed;
          known[AT(current, 0)] = has_0;
          known[AT(current, 1)] = has_1
       :: else
       fi
     }
     /* whose plan landed */
     is_own = (owner[current] == me)
  :: else
  fi;

  if
  :: may_fail -> if :: goto dead :: skip fi
  :: else
  fi;

  if
  :: !is_own ->
#ifndef NO_CLAIM
     claim(current, CARRIED_ON);
     if :: fate[current] != CARRIED_ON -> abandon(current); goto again :: else fi;
#endif
     /* by a process that died on the way, or with other inputs than now */
     if
     :: step[AT(current, 0)] == OCCUPIED || step[AT(current, 1)] == OCCUPIED || (is_changed && is_before[current]) ->
        take_and_abandon(current);
        goto again
     :: else
     fi
  :: else
  fi;

  i = 0;
  do
  :: i < STEPS ->
     /* nobody writes for a plan that was given up */
     if :: abandoned[current] -> goto done :: else fi;
     if
     :: may_fail -> if :: goto dead :: is_own && !has_written -> fail_untouched(current); goto done :: skip fi
     :: else
     fi;
     if
     :: may_fail && !known[AT(current, i)] ->
        if
        :: atomic { !is_late -> is_late = true; run Late(current, i) };
           if :: is_own && !has_written -> fail_in_doubt(current, i) :: else fi;
           goto done
        :: skip
        fi
     :: else
     fi;
     if
     :: !known[AT(current, i)] ->
        atomic {
          if
          :: step[AT(current, i)] == NOT_YET ->
             assert(fate[current] != DROPPED);
             step[AT(current, i)] = ROWS;
             rows[i]++;
             assert(rows[i] == 1)
          :: else
          fi
        };
        has_written = true;
#ifndef BLIND
        if :: step[AT(current, i)] == OCCUPIED -> goto done :: else fi
#endif
     :: else
     fi;
     i++
  :: else -> break
  od;

  if :: abandoned[current] -> goto done :: else fi;
  atomic { assert(rows[0] == 1 && rows[1] == 1); watermark[0] = true; watermark[1] = true };
  if :: may_fail -> if :: goto dead :: skip fi :: else fi;
  if :: abandoned[current] -> goto done :: else fi;
  atomic { committed[current] = true };
  if :: is_own -> goto done :: else -> goto again fi;

dead:
done:
  ended++
}

proctype World() { is_changed = true }

init {
  byte p = 1;
  atomic {
    do
    :: p <= PROCESSES -> run Process(p, true); p++
    :: else -> break
    od;
    run World()
  }
  /* whatever has become of them, one that is left alone ends with all rows there once */
  ended == PROCESSES;
  run Process(PROCESSES + 1, false);
  ended == PROCESSES + 1;
  assert(rows[0] == 1 && rows[1] == 1 && watermark[0] && watermark[1])
}

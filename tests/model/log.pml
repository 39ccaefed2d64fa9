/*
 * How gateways, the database, sijil-keyd and a witness append to the audit log, sign it, start and stop (docs/audit-model.md).
 *
 * The log has SIZE_MAX places of two bits, so a whole log is one number: place 0 has the lowest bits. An event is 1 to EVENTS; 0
 * is what the owner of the database may write. "@step FILE: FUNCTION" names the code that does what follows; tests/model/model.py
 * compares these names with the sources. Guards that a mutation takes away stand in #ifndef.
 */
#ifndef SIZE_MAX
#define SIZE_MAX 3
#endif
#ifndef EVENTS
#define EVENTS 3
#endif
#ifndef ACTS
#define ACTS 2     /* of the owner of the database */
#endif
#ifndef DEATHS
#define DEATHS 1   /* of gateways */
#endif
#ifndef GATEWAYS
#define GATEWAYS 2
#endif

#define MASK(n)          ((1 << (2 * (n))) - 1)
#define FIRST(log, n)    ((log) & MASK(n))
#define PLACE(log, n)    (((log) >> (2 * (n))) & 3)
#define ADD(log, n, e)   (FIRST(log, n) | ((e) << (2 * (n))))
#define CONTINUES(old_log, old_size, log, size) ((old_size) <= (size) && FIRST(log, old_size) == FIRST(old_log, old_size))

/* ---- what is on disks ---- */
byte db_size;          /* audit_log.size */
byte db_frontier;      /* what audit_log.frontier commits to */
byte db_rows;          /* audit_entry */
byte db_epoch;         /* audit_log.epoch */
byte kept_size, kept_frontier, kept_rows; /* a backup of the database */
bool has_backup;

byte keyd_size, keyd_root; /* the ledger: what was signed last */
bool keyd_finding;         /* a gateway found the log changed */
byte old_keyd_size, old_keyd_root;
bool has_old_keyd;

byte witness_size, witness_root;
byte old_witness_size, old_witness_root;

/* ---- what clients and auditors have ---- */
byte noted_size, noted_root;   /* the largest checkpoint that was ever signed */
byte other_size, other_root;   /* a checkpoint on its way: it can be shown to a witness at any time */
byte cosigned_size, cosigned_root;
byte acked;                    /* bit e: event e was acknowledged */
byte place_of[EVENTS + 1];
byte made_by[EVENTS + 1];      /* gateway + 1, while it lives */
byte next_event = 1;
byte acts, deaths;
bool restored_keyd;            /* an old ledger came back */

/* ---- a recovery: the log goes on under a new origin ---- */
byte keyd_number = 1, db_number = 1; /* which log sijil-keyd signs, and which one the database has */
bool recovered;

/* ---- a pinned document: its event, and where that is ---- */
byte pin_event, pin_place;

/* ---- a standby: what it has on its disk ---- */
byte standby_size, standby_frontier, standby_rows;
bool promoted;

/* ---- what a gateway has in memory ---- */
typedef memory {
    bool serves, stopped;      /* stopped: it has found a fork */
    byte newest_size, newest_root; /* of sequencer->newest */
    byte appended, cache;      /* sequencer->appended_size and log_cache */
    bool knows;                /* log_cache.is_known */
    byte number;               /* of the log whose name it read at its start */
    bool restarted;            /* since the recovery */
    bool lost;                 /* an event that it acknowledged is not in a signed tree */
};
memory g[GATEWAYS];

inline note_lost(size, root) {
    lost_event = 1;
    do
    :: lost_event > EVENTS -> break
    :: else ->
        if
        #ifdef KEPT
        :: (acked & (1 << lost_event)) && !made_by[lost_event] && place_of[lost_event] < size && PLACE(root, place_of[lost_event]) != lost_event -> assert(false)
#endif
        :: (acked & (1 << lost_event)) && made_by[lost_event] && place_of[lost_event] < size && PLACE(root, place_of[lost_event]) != lost_event ->
            g[made_by[lost_event] - 1].lost = true
#ifdef KEPT
            ; assert(false) /* an acknowledged event is not in a signed tree */
#endif
        :: else
        fi;
        lost_event++
    od;
    lost_event = 0
}

/* The signature leaves. No two checkpoints of one log contradict each other. */
inline release(size, root) {
    /* @step keyd/checkpoint.c: checkpoint_compose */
#if !defined(KEYD_RESTORE) || defined(ONE_HISTORY)
    /* They may leave in another order than they were signed. */
    assert(CONTINUES(noted_root, noted_size, root, size) || CONTINUES(root, size, noted_root, noted_size));
#endif
    /* what sijil-keyd has pinned stays in the log */
    assert(pin_event == 0 || (pin_place < size && PLACE(root, pin_place) == pin_event));
    note_lost(size, root);
    if :: size > noted_size -> noted_size = size; noted_root = root :: else fi;
#ifdef WITNESS
    other_size = size; other_root = root
#endif
}

inline finds_fork() {
    /* @step audit/sequencer.c: sequencer_set_forked */
    g[me].serves = false; g[me].stopped = true;
#ifndef NO_REPORT
    /* @step audit/sequencer_sign.c: report_fork */
    keyd_finding = true
#endif
}

/* A gateway reads the state of the log, and asks sijil-keyd for a signature. ok: the newest checkpoint is signed. That another gateway may
 * come between identify and the signature (CONFLICT: it begins again) is left out: it changes nothing. */
inline sign_round() {
    /* @step audit/sequencer_sign.c: read_state */
    atomic { ok = false; size = db_size; root = db_frontier };
#if defined(STANDBY) && !defined(NO_AWAIT)
    /* On the connection that has read the state: it is lost when the standby is promoted meanwhile, and then nothing is signed. What is read once more is on the
     * standby. @step storage/pg_connect.c: pg_await_standby */
    atomic { if :: !promoted -> standby_size = db_size; standby_rows = db_rows; standby_frontier = db_frontier :: else -> size = db_size; root = db_frontier fi };
#endif
    atomic {
        if
#ifndef NO_COMPARE_NEWEST
        /* @step audit/sequencer_sign.c: check_state */
        :: size < g[me].newest_size || (size == g[me].newest_size && root != g[me].newest_root) -> forked = true
#endif
#ifndef NO_CHECK_NEWEST
        /* @step audit/sequencer_sign.c: check_newest */
        :: !CONTINUES(g[me].newest_root, g[me].newest_size, root, size) -> forked = true
#endif
#ifndef NO_OWN_CHECK
        /* @step audit/sequencer_sign.c: check_appended */
        :: !CONTINUES(g[me].cache, g[me].appended, root, size) -> forked = true
#endif
        /* @step keyd/checkpoint.c: advance */
        :: else ->
            if
            :: keyd_finding -> forked = true
#ifndef NO_GROWTH
            /* @step keyd/checkpoint.c: check_growth */
            :: !keyd_finding && size >= keyd_size && !CONTINUES(keyd_root, keyd_size, root, size) -> forked = true
            /* A state that was read before the signature of another gateway is read again (@step audit/sequencer_sign.c: sign_newer). */
            :: !keyd_finding && size < keyd_size && db_size >= keyd_size -> skip
            :: !keyd_finding && size < keyd_size && db_size < keyd_size -> forked = true
            :: !keyd_finding && CONTINUES(keyd_root, keyd_size, root, size) ->
#else
            :: !keyd_finding ->
#endif
#ifndef RELEASE_FIRST
                keyd_size = size; keyd_root = root; /* durable before the signature leaves */
#endif
                if
                :: release(size, root);
#ifdef RELEASE_FIRST
                   if :: keyd_size = size; keyd_root = root :: skip fi; /* it dies between signature and disk */
#endif
                   /* The note has the name of the log: a gateway takes that of its own log alone. @step audit/sequencer_sign.c: take_note */
                   if
                   :: g[me].number == keyd_number -> g[me].newest_size = size; g[me].newest_root = root; ok = true
                   :: else
                   fi
                :: skip /* sijil-keyd dies before it answers */
                fi
            fi
        fi;
        size = 0; root = 0
    }
}

#define DIES (deaths < DEATHS)
inline die() {
    atomic {
        deaths++;
        g[me].serves = false; g[me].newest_size = 0; g[me].newest_root = 0; g[me].appended = 0; g[me].cache = 0; g[me].knows = false; g[me].lost = false;
        e = 1;
        do :: e > EVENTS -> break :: else -> if :: made_by[e] == me + 1 -> made_by[e] = 0 :: else fi; e++ od;
        e = 0; size = 0; root = 0; ok = false; forked = false
    }
}

proctype gateway(byte me) {
    byte size, root, e, lost_event;
    bool ok, forked;
#ifdef STANDBY
    bool on_primary; /* the state that it appends behind was read in a transaction there */
#define IS_CUT_OFF (on_primary && promoted)
#else
#define IS_CUT_OFF false
#endif

start:
    /* @step audit/sequencer_check.c: sequencer_check_log */
    atomic {
        size = db_size; g[me].number = keyd_number;
        if
        /* @step audit/sequencer_check.c: check_name */
        :: db_number != keyd_number -> goto refused
#ifndef NO_START_CHECK
        /* @step audit/sequencer_check.c: check_state */
        :: FIRST(db_rows, size) != FIRST(db_frontier, size) -> goto refused
        /* @step audit/sequencer_check.c: check_signed_part */
        :: !CONTINUES(keyd_root, keyd_size, db_rows, size) -> goto refused
#endif
        :: else -> g[me].appended = size; g[me].cache = FIRST(db_frontier, size)
        fi
    };
    /* Entries that were left unsigned are signed before anything is served. */
    do
    :: sign_round();
       if
       :: forked -> goto refused
       :: ok -> break
       :: else
       fi
    :: DIES -> die(); goto start
    od;
    atomic { g[me].serves = true; ok = false };

    do
    :: atomic { next_event <= EVENTS && db_size < SIZE_MAX -> /* a request that must be recorded */
        e = next_event; next_event++;
        if
        :: g[me].knows -> size = g[me].appended; root = g[me].cache /* @step audit/sequencer_append.c: use_cache */
        :: true -> /* @step audit/sequencer_append.c: begin */
            size = db_size; root = db_frontier;
#ifdef STANDBY
            on_primary = !promoted; /* the append is in the same transaction, which ends with its connection */
#endif
            if
            :: size < g[me].appended -> forked = true
#ifndef NO_CACHE_COMPARE
            /* @step audit/log_cache.c: log_cache_compare */
            :: size == g[me].appended && root != g[me].cache -> forked = true
#endif
            :: else
            fi
        fi };
        if
        :: forked -> goto found
        :: else
        fi;
        /* @step audit/audit_append_store.c: audit_append_sql */
        atomic {
            if
#ifndef NO_FENCE
            :: db_size == size && size < SIZE_MAX && !IS_CUT_OFF ->
#else
            :: size < SIZE_MAX ->
#endif
#ifdef NONE_AFTER_A_LOSS
                assert(!g[me].lost);
#endif
                if
                :: db_rows = ADD(db_rows, size, e); db_frontier = ADD(root, size, e); db_size = size + 1;
#if defined(STANDBY) && !defined(NO_SYNCHRONOUS)
                   standby_rows = db_rows; standby_frontier = db_frontier; standby_size = db_size; /* before the commit returns, and before anybody else sees it */
#endif
                   g[me].appended = size + 1; g[me].cache = ADD(root, size, e); g[me].knows = true; ok = true
#ifdef STANDBY
                :: !promoted -> /* the primary dies before the standby has it: nobody has seen it */
                   db_size = standby_size; db_rows = standby_rows; db_frontier = standby_frontier; promoted = true; g[me].knows = false; ok = false
                :: !promoted -> /* the wait for the standby is broken off: it is on the primary alone, and everybody sees it */
                   db_rows = ADD(db_rows, size, e); db_frontier = ADD(root, size, e); db_size = size + 1; g[me].knows = false; ok = false
                :: !promoted -> /* the same, and its gateway finds it. @step audit/audit_append_store.c: audit_has_entry */
                   db_rows = ADD(db_rows, size, e); db_frontier = ADD(root, size, e); db_size = size + 1;
#ifndef NO_AWAIT
                   standby_rows = db_rows; standby_frontier = db_frontier; standby_size = db_size;
#endif
                   g[me].appended = size + 1; g[me].cache = ADD(root, size, e); g[me].knows = false; ok = true
                :: /* it is on both, and the answer is lost */
                   db_rows = ADD(db_rows, size, e); db_frontier = ADD(root, size, e); db_size = size + 1;
                   standby_rows = db_rows; standby_frontier = db_frontier; standby_size = db_size; g[me].knows = false; ok = false
#endif
                fi
            :: else -> g[me].knows = false; ok = false /* @step audit/log_cache.c: log_cache_forget */
            fi;
#ifdef STANDBY
            on_primary = false
#endif
        };
        if
        :: ok && DIES -> die(); goto start
        :: ok ->
            /* @step audit/sequencer_group.c: finish_durable */
            atomic {
                acked = acked | (1 << e); place_of[e] = size; made_by[e] = me + 1; ok = false; e = 0; size = 0; root = 0
            }
        :: !ok -> atomic { e = 0; size = 0; root = 0 } /* it is tried again, as another event here */
        fi
    :: sign_round(); /* @step audit/sequencer_sign.c: sign_round */
       if
       :: forked -> goto found
       :: else -> ok = false
       fi
    :: atomic { g[me].newest_size > 0 && FIRST(db_rows, g[me].newest_size) != FIRST(g[me].newest_root, g[me].newest_size) ->
        if
        :: forked = true /* @step audit/log_verifier.c: run */
        :: /* an auditor reads below the newest checkpoint: nothing else than what was signed is given out */
#ifndef NO_READ_CHECK
           forked = true /* @step audit/published.c: published_tile */
#else
           assert(false)
#endif
        fi };
       goto found
#ifdef PINS
    /* A document is recorded, and sijil-keyd is asked to pin it. */
    :: atomic { pin_event == 0 && db_size > 0 ->
        /* @step keyd/document_pin.c: check_inclusion */
#ifndef NO_INCLUSION
        if
        :: keyd_size > 0 -> pin_place = keyd_size - 1; pin_event = PLACE(keyd_root, pin_place)
        :: else
        fi
#else
        pin_place = db_size - 1; pin_event = PLACE(db_rows, pin_place)
#endif
        }
#endif
    :: DIES -> die(); goto start
    od;

found:
    atomic { finds_fork(); size = 0; root = 0; e = 0; forked = false };
refused:
    atomic { g[me].serves = false; size = 0; root = 0; ok = false; forked = false };
#ifdef RECOVERY
    /* After the recovery the gateways are started again. */
    atomic { recovered && !g[me].restarted -> g[me].restarted = true;
        g[me].stopped = false; g[me].newest_size = 0; g[me].newest_root = 0; g[me].appended = 0; g[me].cache = 0; g[me].knows = false };
    goto start
#endif
}

/* Whoever owns the database does what he wants with it, while anything runs. */
proctype owner() {
    do
    :: acts < ACTS -> atomic { acts++;
        if
        :: db_size > 0 -> db_size--; db_rows = FIRST(db_rows, db_size); db_frontier = FIRST(db_frontier, db_size) /* truncates it, and makes all of it fit */
        :: db_size > 0 -> db_rows = FIRST(db_rows, db_size - 1); db_frontier = FIRST(db_frontier, db_size - 1) /* rewrites the last event, everywhere */
        :: db_size > 0 -> db_rows = FIRST(db_rows, db_size - 1) /* rewrites its row alone */
        :: db_size > 1 -> db_rows = db_rows & ~3; db_frontier = db_frontier & ~3 /* rewrites the first event */
        :: has_backup -> db_size = kept_size; db_frontier = kept_frontier; db_rows = kept_rows
        fi;
#ifdef STANDBY
        if
        :: !promoted -> standby_size = db_size; standby_rows = db_rows; standby_frontier = db_frontier /* it comes to the standby, too */
        :: true
        fi
#endif
        }
    :: !has_backup -> atomic { has_backup = true; kept_size = db_size; kept_frontier = db_frontier; kept_rows = db_rows }
    :: break
    od
}

#ifdef STANDBY
/* The primary dies, and the standby becomes the primary. */
proctype failover() {
#ifdef NO_SYNCHRONOUS
    do
    :: atomic { !promoted -> standby_rows = db_rows; standby_frontier = db_frontier; standby_size = db_size } /* when it comes to it */
    :: break
    od;
#endif
    atomic { !promoted ->
#if !defined(NO_SYNCHRONOUS) && ACTS == 0
        assert(CONTINUES(noted_root, noted_size, standby_frontier, standby_size)); /* what is signed is on the standby */
#endif
        db_size = standby_size; db_rows = standby_rows; db_frontier = standby_frontier; promoted = true }
}
#endif

#ifdef RECOVERY
/* Entries are lost: the operator makes a plan, two officers sign it, sijil-keyd takes it, and the database gets the new name. Gateways may run meanwhile, although they must not. */
proctype officers() {
    byte before, left, rest;

    atomic { db_size < keyd_size || !CONTINUES(keyd_root, keyd_size, db_rows, db_size) ->
        before = keyd_size; left = db_size; rest = FIRST(db_rows, db_size) };
    /* @step keyd/recovery.c: recovery_take */
    atomic {
        if
#ifndef NO_BEFORE
        /* @step keyd/recovery.c: check_before */
        :: before == keyd_size ->
#else
        :: true ->
#endif
            assert(noted_size <= before); /* the statement says how large the log was: nobody has a larger checkpoint of it */
            /* @step keyd/recovery.c: apply */
            keyd_size = left; keyd_root = rest; keyd_finding = false; pin_event = 0; pin_place = 0;
#ifndef SAME_ORIGIN
            keyd_number++; noted_size = left; noted_root = rest
#endif
        :: else -> goto end
        fi
    };
    /* @step audit/succession_store.c: audit_succeed */
    atomic {
        if
        :: db_size == left -> db_number = keyd_number; recovered = true
        :: else
        fi
    };
end:
    skip
}
#endif

#ifdef KEYD_RESTORE
/* The folder of sijil-keyd comes back from a backup, too. Only a witness notices. */
proctype operator() {
    atomic { old_keyd_size = keyd_size; old_keyd_root = keyd_root };
    atomic { keyd_size = old_keyd_size; keyd_root = old_keyd_root; keyd_finding = false }
}
#endif

#ifdef WITNESS
/* Anybody may show a witness any signed checkpoint. */
proctype witness() {
    do
    :: atomic { other_size > 0 ->
        /* @step witness/answer.c: compare */
        if
#ifndef NO_WITNESS_CHECK
        :: CONTINUES(witness_root, witness_size, other_root, other_size) ->
#else
        :: true ->
#endif
            witness_size = other_size; witness_root = other_root; /* @step witness/state.c: watched_log_move */
            /* who demands the cosignature sees one history, whatever sijil-keyd has signed */
            assert(CONTINUES(cosigned_root, cosigned_size, other_root, other_size));
            cosigned_size = other_size; cosigned_root = other_root
        :: else
        fi;
        other_size = 0; other_root = 0 }
#ifdef WITNESS_RESTORE
    :: atomic { old_witness_size = witness_size; old_witness_root = witness_root }
    :: atomic { witness_size = old_witness_size; witness_root = old_witness_root }
#endif
    od
}
#endif

init {
    atomic {
        run gateway(0);
#if GATEWAYS > 1
        run gateway(1);
#endif
        run owner();
#ifdef WITNESS
        run witness();
#endif
#ifdef KEYD_RESTORE
        run operator();
#endif
#ifdef STANDBY
        run failover();
#endif
#ifdef RECOVERY
        run officers();
#endif
    }
}

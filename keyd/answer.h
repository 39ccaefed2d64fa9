/*
 * keyd/answer.h -- answers one request of a gateway: the only operations that keyd offers.
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "documents/format/set_change.h"
#include "keyd/key_register.h"
#include "keyd/keyring.h"
#include "keyd/ledger.h"
#include "keyd/log_rotation.h"
#include "keyd/mint_limits.h"
#include "keyd/organisation_officers.h"
#include "keyd/organisation_restrictions.h"
#include "keyd/policy_ids.h"
#include "keyd/quorum.h"
#include "keyd/rate.h"
#include "keyd/region.h"
#include "keyd/region_keyds.h"
#include "keyd/replacement.h"
#include "keyd/run_ledger.h"
#include "training/format/bundle.h"

/** Shared by all connections. Borrowed; thread-safe. */
struct keyd {
    const struct keyring *keyring;
    struct ledger *ledger;
    struct rate *rate;
    struct mint_limits *mints;
    struct run_ledger *runs;
    struct key_register *keys;
    struct quorum *quorum;
    struct log_rotation *rotation;
    struct replacements *replacements;
    bool one_officer;                               /* keyd/recovery.h */
    struct policy_ids *ids;                         /* NULL in tests that need none */
    struct organisation_officers *officers;         /* NULL in tests that need none: then no restriction is pinned */
    struct organisation_restrictions *restrictions; /* likewise: then runs are decided without any */
    struct region_keyds *regions; /* NULL in tests that need none: then nothing is certified for regions of sets */
    struct region_keyd *region;   /* NULL: this is the main one */
    run_day_check *check_run;     /* under the policy set in force: keyd knows no policies, so its program gives it */
    set_change_check *check_set;
};

/**
 * Answers `message` (whole, with its header) into the empty `reply`. A request that fails gets an error reply.
 * ERROR_INVALID if the message itself is malformed: then there is no reply, and the connection is unusable.
 */
RESULT keyd_answer(const struct keyd *keyd, struct bytes message, struct buffer *reply, struct error *err);

/** Uses every algorithm once, so that nothing is loaded from disk later, and a broken library shows at the start. */
RESULT keyd_self_test(const struct keyd *keyd, struct error *err);

/*
 * gateway/readiness.h -- the parts that a request needs. /readyz names the first part that is not ready; /metrics has one number for each
 * part.
 */
#pragma once

#include "crypto/keyd_client.h"
#include "gateway/pipeline/gateway.h"
#include "storage/pg.h"

/* In the order of the rows of sijil_ready in gateway/pipeline/metrics.def. */
enum ready_part { READY_LOG, READY_RIGHTS, READY_DATABASE, READY_REGIONS, READY_KEYD, READY_DOCUMENTS, READY_PARTS };

struct ready_asker {
    const struct gateway *gateway;
    struct pg *pg;                 /* the worker's connection; NULL: the database is not asked */
    struct keyd_identity identity; /* set by READY_KEYD */
};

/** Asks sijil-keyd; the state of the other parts is in memory. The error says what a person can do. */
RESULT ready_ask(struct ready_asker *asker, enum ready_part part, struct error *err);

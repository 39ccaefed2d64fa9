/* training/label_stated_priv.h -- the labels that stored manifests state, for the server's own work. The caller has checked the permit. */
#pragma once

#include "storage/pg.h"
#include "training/format/artifacts.h"
#include "training/label_stated.h"

/** Columns: the index of the artifact, its label. No row: it states none, or is not stored any more. */
RESULT run_rows_stated(struct pg *pg, const struct run_artifacts *artifacts, struct pg_rows **rows_out, struct error *err);

/** Of a request, with the policy set in force. ERROR_UNAVAILABLE while there is none. */
RESULT run_floor_now(struct pg *pg, struct decider *decider, const struct run_floor_query *query, struct run_floor **floor_out,
                     struct error *err);
/** Appends its canonical JSON. */
RESULT run_floor_write(const struct run_floor *floor, struct buffer *label, struct error *err);

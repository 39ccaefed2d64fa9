/* gateway/api/run_log_priv.h -- what the writer and the readers of a run's log share. */
#pragma once

#include "gateway/api/api_priv.h"
#include "training/format/chain.h"

/** A whole number of the query; 0 if it is left out. False: it is no number from `least` to `most`, and the answer is 400. */
bool run_log_argument(struct request *request, const char *name, uint64_t least, uint64_t most, uint64_t *value_out);
/** Those that wait for more of this run's log at this gateway look again. `run`: its UUID. */
void run_log_wake(struct request *request, const char *run);

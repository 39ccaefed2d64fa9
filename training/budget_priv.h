/* training/budget_priv.h -- the figures behind training/budget.h. The caller has checked the permit. */
#pragma once

#include "storage/pg.h"
#include "training/budget.h"

/** ERROR_DENIED, with the figures: less than `cost` is left of the budget, beside all that other runs have reserved. */
RESULT run_budget_check(struct pg *pg, const struct uuid *project, const struct uuid *run, const struct run_cost *cost,
                        struct error *err);
/** Reserves `cost` for the run, in place of what it had reserved. ERROR_DENIED as above. */
RESULT run_budget_reserve(struct pg *pg, const struct uuid *project, const struct uuid *run, const struct run_cost *cost,
                          struct error *err);

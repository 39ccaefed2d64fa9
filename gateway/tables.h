/* gateway/tables.h -- every table of SQL statements that workers and the sequencer's changes use. */
#pragma once

#include "storage/pg.h"

/** NULL-terminated. */
extern const struct pg_table *const gateway_tables[];

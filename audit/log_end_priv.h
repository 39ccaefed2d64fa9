/*
 * audit/log_end_priv.h -- whether rows are stored beyond the end of the log: one expression for the verifier and for dumps.
 */
#pragma once

/* clang-format off */
/*
 * Of the row `l` of audit_log. Each part reads one end of an index, so the cost does not grow with the log: highest and lowest numbers are asked for,
 * as for "EXISTS (... seq >= l.size)" PostgreSQL expects many rows, and reads the whole table of parts.
 */
#define LOG_HAS_MORE(payload)                                                                                                       \
    "(coalesce((SELECT max(seq) FROM audit_entry) >= l.size OR (SELECT min(seq) FROM audit_entry) < 0, false)"                      \
    " OR coalesce((SELECT max(seq) FROM " payload ") >= l.size OR (SELECT min(seq) FROM " payload ") < 0, false)"                   \
    " OR EXISTS (SELECT FROM generate_series(0, 6) AS v (level), LATERAL (SELECT FROM audit_tile t WHERE t.level = v.level"         \
    " AND t.idx >= l.size >> (8 * (v.level + 1)) LIMIT 1) AS behind)"                                                               \
    " OR EXISTS (SELECT FROM generate_series(0, 6) AS v (level), LATERAL (SELECT FROM audit_tile t WHERE t.level = v.level"         \
    " AND t.idx < 0 LIMIT 1) AS before)"                                                                                            \
    " OR EXISTS (SELECT FROM audit_tile WHERE level < 0) OR EXISTS (SELECT FROM audit_tile WHERE level > 6))"
/* clang-format on */

/*
 * audit/log_end_priv.h -- whether rows are stored beyond the end of the log: one expression for the verifier and for dumps.
 */
#pragma once

/* clang-format off */
/* Of the row `l` of audit_log. Each part uses an index, so the cost does not grow with the log. */
#define LOG_HAS_MORE(payload)                                                                                                       \
    "(EXISTS (SELECT FROM audit_entry WHERE seq >= l.size) OR EXISTS (SELECT FROM audit_entry WHERE seq < 0)"                       \
    " OR EXISTS (SELECT FROM " payload " WHERE seq >= l.size) OR EXISTS (SELECT FROM " payload " WHERE seq < 0)"                    \
    " OR EXISTS (SELECT FROM generate_series(0, 6) AS v (level), LATERAL (SELECT FROM audit_tile t WHERE t.level = v.level"         \
    " AND t.idx >= l.size >> (8 * (v.level + 1)) LIMIT 1) AS behind)"                                                               \
    " OR EXISTS (SELECT FROM generate_series(0, 6) AS v (level), LATERAL (SELECT FROM audit_tile t WHERE t.level = v.level"         \
    " AND t.idx < 0 LIMIT 1) AS before)"                                                                                            \
    " OR EXISTS (SELECT FROM audit_tile WHERE level < 0) OR EXISTS (SELECT FROM audit_tile WHERE level > 6))"
/* clang-format on */

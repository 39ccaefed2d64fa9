/*
 * registry/rules.h -- the rules of a project for retention and immutable tags: one small JSON document
 * (docs/quotas.md).
 *
 *   {"retention": [{"repositories": "*", "tags": "v*", "keep_last": 10, "pushed_days": 30, "pulled_days": 90}],
 *    "untagged_days": 7,
 *    "immutable": [{"repositories": "*", "tags": "v*"}]}
 *
 * Every member is optional; without a rule everything is kept. Unknown members are refused. Pure: the caller passes
 * rows and time.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "registry/pattern.h"

#define RULES_TEXT_MAX 32768 /* room for RULES_MAX of each kind with the longest patterns */
#define RULES_MAX      32    /* of each kind; a project that needs more should be split */
#define RULES_DAYS_MAX 36500
#define RULES_LAST_MAX 1000000
#define RULES_NONE     (-1)

/** Keeps a tag that matches it, if one of its conditions holds or it has none. */
struct retention_rule {
    char repositories[PATTERN_MAX + 1], tags[PATTERN_MAX + 1];
    int64_t keep_last;                /* among the matching tags, by time of push; RULES_NONE */
    int64_t pushed_days, pulled_days; /* pushed or pulled at most so long ago; RULES_NONE */
};
struct immutable_rule {
    char repositories[PATTERN_MAX + 1], tags[PATTERN_MAX + 1];
};
struct rules {
    size_t retention_count, immutable_count;
    int64_t untagged_days; /* manifests that nothing refers to are removed after so long; RULES_NONE: never */
    struct retention_rule retention[RULES_MAX];
    struct immutable_rule immutable[RULES_MAX];
};

/** ERROR_INVALID names what is wrong; ERROR_LIMIT. "{}" keeps everything. The caller owns *rules_out. */
RESULT rules_read(struct bytes text, struct rules **rules_out, struct error *err);
void rules_free(struct rules *rules);
DEFINE_OWNED(rules);

/** The facts of one tag, for the rules. */
struct tag_fact {
    const char *name, *digest;
    int64_t pushed_ms;
    int64_t pulled_ms;  /* of its digest; 0: no pull is known */
    bool is_attachment; /* named after an existing digest of this repository ("sha256-<hex>.sig"): removed together with that */
};

/** Does any retention rule match this repository? Its name is the path below the project, "digits/team". */
bool rules_retain(const struct rules *rules, const char *repository);
bool rules_make_immutable(const struct rules *rules, const char *repository, const char *tag);
/**
 * is_kept_out tells for each tag whether it is kept. `tags` are sorted by pushed_ms, newest first. If one tag of a
 * digest is kept, all tags of the digest are. ERROR_NO_MEMORY.
 */
struct tag_facts {
    const char *repository;
    size_t count;
    const struct tag_fact *tags;
    int64_t now_ms;
};
RESULT rules_evaluate(const struct rules *rules, const struct tag_facts *facts, bool *is_kept_out, struct error *err);

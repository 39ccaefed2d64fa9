/*
 * registry/rules.h -- what a project keeps and what stays as it is: one small JSON document (docs/quotas.md).
 *
 *   {"retention": [{"repositories": "*", "tags": "v*", "keep_last": 10, "pushed_days": 30, "pulled_days": 90}],
 *    "untagged_days": 7,
 *    "immutable": [{"repositories": "*", "tags": "v*"}]}
 *
 * Every member may be left out; without a rule everything is kept. Unknown members are refused. Pure: rows come from
 * elsewhere, and so does the time.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "registry/pattern.h"

#define RULES_TEXT_MAX 32768 /* RULES_MAX of each kind with the longest patterns, and room for spelling */
#define RULES_MAX      32    /* of each kind: more is a project that should be several */
#define RULES_DAYS_MAX 36500
#define RULES_LAST_MAX 1000000
#define RULES_NONE     (-1)

/** A tag that a retention rule keeps: it fits, and one of the rule's conditions holds, or the rule has none. */
struct retention_rule {
    char repositories[PATTERN_MAX + 1], tags[PATTERN_MAX + 1];
    int64_t keep_last;                /* among the tags that fit, by time of push; RULES_NONE */
    int64_t pushed_days, pulled_days; /* at most so long ago; RULES_NONE */
};
struct immutable_rule {
    char repositories[PATTERN_MAX + 1], tags[PATTERN_MAX + 1];
};
struct rules {
    size_t retention_count, immutable_count;
    int64_t untagged_days; /* manifests that nothing refers to go after so long; RULES_NONE: never */
    struct retention_rule retention[RULES_MAX];
    struct immutable_rule immutable[RULES_MAX];
};

/** ERROR_INVALID names what is wrong; ERROR_LIMIT. "{}" keeps everything. The caller owns *rules_out. */
RESULT rules_read(struct bytes text, struct rules **rules_out, struct error *err);
void rules_free(struct rules *rules);
DEFINE_OWNED(rules);

/** One tag of a repository, as the rules see it. */
struct tag_fact {
    const char *name, *digest;
    int64_t pushed_ms;
    int64_t pulled_ms;   /* of its digest; 0: not known to have been */
    bool is_attachment;  /* named after a digest of this repository that is there ("sha256-<hex>.sig"): goes when that goes */
};

/** Has any retention rule a say in this repository? "digits/team" below the project. */
bool rules_retain(const struct rules *rules, const char *repository);
bool rules_make_immutable(const struct rules *rules, const char *repository, const char *tag);
/**
 * Which tags stay, in the order of `tags`, which is that of pushed_ms, newest first. A digest with one tag that stays keeps
 * all its tags: is_kept_out is the same for all of them. ERROR_NO_MEMORY.
 */
struct tag_facts {
    const char *repository;
    size_t count;
    const struct tag_fact *tags;
    int64_t now_ms;
};
RESULT rules_judge(const struct rules *rules, const struct tag_facts *facts, bool *is_kept_out, struct error *err);

/*
 * audit/search.h -- finds the events of the log that meet several conditions.
 *
 * An index that is written behind the log (audit/search_index.h) tells which entries may meet them; each entry is then compared with its leaf
 * and, for a client's address, with its opened payload. So an answer has no wrong event. It can lack events that the index does not know:
 * `known` says how far the index goes. Rule: the permit is for audit.read; only events inside its resource are found. Connections need
 * audit_query_table, audit_search_table and audit_subject_table.
 */
#pragma once

#include "audit/format/search_terms.h"
#include "audit/query.h"

extern const struct pg_table audit_search_table, audit_subject_table;

#define SEARCH_VALUE_MAX    255 /* bytes */
#define SEARCH_VALUES_MAX   32  /* of one condition: the pseudonyms of one name */
#define SEARCH_NETWORK_IPV4 24  /* bits of a network that is found, as in denied.burst events */
#define SEARCH_NETWORK_IPV6 56

/** An event meets it with one of the values. */
struct search_condition {
    enum search_field field;
    size_t count; /* 0: no event meets it */
    char values[SEARCH_VALUES_MAX][SEARCH_VALUE_MAX + 1];
};

struct search {
    bool ascending;
    uint64_t from, until;       /* sequence numbers, from <= seq < until; INT64_MAX: no end */
    int64_t since_ms, until_ms; /* times of the events, since <= ts < until; 0 and INT64_MAX: all */
    size_t limit;               /* 1 to AUDIT_PAGE_MAX */
    unsigned budget_ms;         /* of looking for further events */
    uint64_t size;              /* entries of the log when the question came; 0: nobody asks whether the answer is complete */
    size_t condition_count;     /* an event must meet all */
    struct search_condition conditions[SEARCH_FIELD_COUNT + 1]; /* one for each field, and one for `key` */
};

/** The parts that a search works with. */
struct search_source {
    struct pg *pg;
    struct keyd_client *keyd;
    const char *origin;
};

struct search_progress {
    uint64_t known;    /* entries that the index knows: the events before this number */
    uint64_t wanted;   /* that a complete answer needs: `size`, or less if what is searched ends before `known` */
    uint64_t searched; /* ascending: all events before this number were searched; descending: all from this number on */
    bool is_done;      /* false: the page is full, or the budget ran out; go on from `searched` */
};

/**
 * Writes the value in the form that the index has: an address or a network in its shortest form. ERROR_INVALID, with a message for the
 * caller, for a value that no event can have.
 */
RESULT search_condition_add(struct search_condition *condition, const char *value, struct error *err) __attribute__((nonnull));
/**
 * Adds the pseudonyms of all subjects with this name: a robot of this registry, and a subject of each issuer that the registry trusts or has
 * given a role to. A name that never acted has none. ERROR_LIMIT for more than SEARCH_VALUES_MAX.
 */
RESULT search_add_name(const struct permit *permit, const struct search_source *source, const char *name,
                       struct search_condition *condition, struct error *err) __attribute__((nonnull));
/** The condition that `key` of a list stands for (leaf_key_is_possible()). */
void search_condition_of_key(const char *key, struct search_condition *condition_out) __attribute__((nonnull));

/** The number of entries that the index knows, and that the log has. */
RESULT search_known(const struct permit *permit, struct pg *pg, uint64_t *known_out, uint64_t *size_out, struct error *err)
    __attribute__((nonnull));

/** ERROR_INVALID for a limit out of bounds. ERROR_CORRUPT: the index is damaged. ERROR_FORKED as audit_list(). */
RESULT search_run(const struct permit *permit, const struct search_source *source, const struct search *search,
                  struct audit_page **page_out, struct search_progress *progress_out, struct error *err) __attribute__((nonnull));

#define SEARCH_BY_WORDS_MAX 1000
/** Events of one action, each by a word of its detail, such as the ids of robots. */
struct search_words {
    const char *action;
    uint64_t from; /* number of the first event that may be found */
    const char *const *words;
    size_t count;
    struct result (*take)(void *context, struct bytes leaf, struct error *err); /* of each event inside the permit's resource */
    void *context;
};
/** One question for all words: at most AUDIT_PAGE_MAX events, the oldest ones. An event that the index does not know is not found. Errors as search_run(). */
RESULT search_by_words(const struct permit *permit, const struct search_source *source, const struct search_words *wanted,
                       struct error *err) __attribute__((nonnull));

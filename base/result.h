/*
 * base/result.h -- how a function reports that it failed.
 *
 * A function that can fail returns RESULT and takes a `struct error *` as its last parameter. RESULT is a type of its own,
 * so a caller can neither drop it nor mistake it for a yes/no answer. The function that meets the failure writes the error;
 * its callers pass it on unchanged.
 *
 * Out-parameters are written on success only.
 */
#pragma once

#include <stdbool.h>

/* kind, name in logs and metrics, what the caller may do */
#define ERROR_KINDS(X)                                                                       \
    X(ERROR_INVALID, "invalid", "the input breaks a stated rule; the same call fails again") \
    X(ERROR_DENIED, "denied", "known caller, not allowed")                                   \
    X(ERROR_NOT_FOUND, "not_found", "no such thing, or none the caller may see")             \
    X(ERROR_CONFLICT, "conflict", "the thing changed under the caller; read it again")       \
    X(ERROR_LIMIT, "limit", "a stated limit was reached; the message names it")              \
    X(ERROR_FULL, "full", "no room on the disk; the same call succeeds once there is room")  \
    X(ERROR_UNAVAILABLE, "unavailable", "a peer is down; the same call may succeed later")   \
    X(ERROR_UNCERTAIN, "uncertain", "a commit was sent and its answer was lost")             \
    X(ERROR_CORRUPT, "corrupt", "stored bytes fail their own check; raise an alarm")         \
    X(ERROR_NO_MEMORY, "no_memory", "out of memory")                                         \
    X(ERROR_FORKED, "forked", "the log in the database is not the one that was signed: stop")

enum error_kind {
    ERROR_NONE = 0,
#define X(kind, name, meaning) kind,
    ERROR_KINDS(X)
#undef X
};

/** The callee fills it in on failure. Fixed size: an error allocates nothing. */
struct error {
    enum error_kind kind;
    char message[256]; /* one sentence for a person; never a secret */
};

struct result {
    bool ok;
};

#define RESULT  __attribute__((warn_unused_result)) struct result
#define SUCCESS ((struct result){.ok = true})

/** Passes a failure on to the caller. OWNED releases the function's objects. (It returns a constant, because gcc
 *  -fanalyzer forgets the content of a struct.) */
#define TRY(call)                                      \
    do {                                               \
        const bool ok_ = (call).ok;                    \
        if (!ok_) return (struct result){.ok = false}; \
    } while (0)

/** Writes the error and yields the failure to return: `return failure(err, ERROR_INVALID, ...)`. A macro, so that the
 *  static analysers know the outcome. */
#define failure(err, kind, ...) (failure_write((err), (kind), __VA_ARGS__), (struct result){.ok = false})
void failure_write(struct error *err, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4), nonnull(1, 3)));

/** Puts "NAME: " before the failure's message, unless the message has the name. */
void failure_name(const char *name, struct error *err);

/** "invalid", "denied", ...; "none" for ERROR_NONE. */
const char *error_kind_name(enum error_kind kind);

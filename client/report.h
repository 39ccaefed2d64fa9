/*
 * client/report.h -- receives messages of a registry beside results.
 *
 * The folder client/ prints nothing itself, except, if asked to, each exchange (client/trace.h) and the bar of a transfer
 * (client/progress.h). A registry's warnings, and retries, go to the functions of the program's report.
 */
#pragma once

#include "base/result.h"

struct ecdsa_key;

struct report {
    bool verbose; /* each exchange is shown on standard error */
    const struct ecdsa_key
        *act_key;        /* signs requests that change something, besides the login; NULL: none. It outlives the sessions */
    bool waits_for_room; /* the caller tries for hours: a registry without room (507) is ERROR_UNAVAILABLE, and not ERROR_FULL */
    /** A registry's warning, once for all clones of a session, without characters that control a terminal. NULL: warnings are dropped. */
    void (*warn)(const char *warning);
    /** A retry in `seconds`, because of `why`, which has no secrets. NULL: retries are not shown. */
    void (*wait)(const char *why, unsigned seconds);
    /**
     * The person logs in again at its issuer, and the stored login of the host is the new one (RFC 9470). `acr_values`: how, as the registry names it; "": anyhow. NULL:
     * nobody can be asked. ERROR_INVALID: another person has logged in.
     */
    RESULT (*log_in)(struct report *report, const char *host, const char *acr_values, struct error *err);
    char explanation[4096]; /* the registry's details beside the message: rule, decision, request id */
};

/** Adds a line "label value" to the explanation; nothing if the value is NULL. */
void report_explain(struct report *report, const char *label, const char *value);

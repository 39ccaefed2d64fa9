/*
 * training/format/form.h -- the forms of texts in envelopes of runs (docs/formats/run.md, "Envelope").
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool form_uuid(const char *text);
bool form_digest(const char *text);
bool form_hex(const char *text);
/** RFC 3339 in UTC with milliseconds, in its one spelling. */
bool form_time(const char *text);
bool form_name(const char *text);
bool form_output_name(const char *text);
bool form_project(const char *text);
bool form_repository(const char *text);
bool form_principal(const char *text);
bool form_thumbprint(const char *text);
bool form_nonce(const char *text);
bool form_public_key(
    const char *text); /* a P-256 key (training/format/public_key.h); also with a point that is not on the curve */
bool form_output_type(const char *text); /* a media type that is not of a run's own artifacts */
bool form_jurisdiction(const char *text);
bool form_shown(const char *text); /* UTF-8 without characters that steer a terminal, a line feed among them */
bool form_variable(const char *text);
bool form_issuer(const char *text);        /* of a token: the registry, trust rules, or a URL */
bool form_task_variable(const char *text); /* one of torchrun's, which each task of several gets */
bool form_network(const char *text);
bool form_isolation(const char *text);
bool form_status(const char *text);
bool form_runner_urn(const char *text);
bool form_run_urn(const char *text);
bool form_repository_urn(const char *text);
bool form_endpoint(const char *text); /* "192.0.2.7:4711", "[2001:db8::7]:4711": an IP address and a port */

#define FORM_RUNNER_URN     "urn:sijil:runner:"
#define FORM_RUN_URN        "urn:uuid:"
#define FORM_REPOSITORY_URN "urn:sijil:"

/**
 * Whether a device with this name, such as "NVIDIA H200 NVL", is of a type. A type is one or more words of the name ("H200"), or
 * the whole name.
 */
bool form_is_of_type(const char *name, const char *type);

/** The rank of an isolation, 0 for the weakest; -1 for an unknown name. */
int form_isolation_rank(const char *text);

/*
 * client/commands/runner_attestation.h -- what a person signs of an attested runner: who has looked at the machine, on what evidence, and where it calls
 * from (docs/runner.md, "Attested runners").
 */
#pragma once

#include "base/json.h"
#include "client/commands/commands_priv.h"

/** The options --attested-by, --evidence and --network, together or none: then *attestation_out is NULL. ERROR_INVALID. */
RESULT runner_attestation_read(const struct invocation *invocation, json_t **attestation_out, struct error *err);
/** Shows it on standard error, before it is signed. Nothing for a runner without one. */
void runner_attestation_show(const json_t *body);

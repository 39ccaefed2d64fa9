/*
 * gateway/api/run_priv.h -- checks of the envelopes that clients send about a training run (docs/formats/run.md).
 */
#pragma once

#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"
#include "training/format/chain.h"
#include "training/run.h"

/** The body as an envelope of this type; its run must be the one in the path, if the path names one. */
RESULT run_body_read(const struct request *request, enum run_type type, struct run_envelope **envelope_out, struct error *err);

/**
 * Whether the caller itself has signed: the envelope's member `who` names the caller, and one of the caller's keys has signed.
 * The key must be in force for the registry, the organisation or the project. ERROR_DENIED.
 */
RESULT run_check_caller(const struct request *request, struct pg *pg, const struct run_envelope *envelope, const char *who,
                        struct error *err);

/** Adds `outputs` to the description of an admitted run; nothing to any other run's. */
RESULT run_add_outputs(const struct request *request, struct pg *pg, const struct uuid *id, json_t *value, struct error *err);

/** Whether now lies within the life that the envelope states. ERROR_DENIED. */
RESULT run_check_life(const struct run_envelope *envelope, struct error *err);

/**
 * Whether roles and policies let the caller train with all repositories of the specification, whose shape was checked. A denial is recorded.
 * *duties: what the policies demand. ERROR_DENIED names the repository.
 */
RESULT run_check_repositories(struct request *request, const json_t *spec, struct run_duties *duties, struct error *err);

/** The answer with the run and its envelopes, under the request's permit for `action`. */
RESULT run_answer(struct request *request, struct pg *pg, enum action action, const struct uuid *id, struct error *err);

/** Adds `people`, the holders of the principals of `envelopes` and of the requester, if the caller may approve. A permit for ACTION_RUN_READ. */
RESULT run_add_people(const struct request *request, struct pg *pg, const json_t *envelopes, json_t *value, struct error *err);
extern const struct schema schema_run_person;
/** Adds `doubts`, as the withdrawals in force and the suspensions say them; nothing if there are none. */
RESULT run_add_doubts(const struct request *request, struct pg *pg, const struct uuid *id, json_t *value, struct error *err);

/** Adds `runners` to the description of an ordered run: how many asked for work, and what they lack. */
RESULT run_add_runners(const struct request *request, struct pg *pg, const struct uuid *id, json_t *value, struct error *err);
extern const struct schema schema_run_runners;

/* --- run_made.c: doubts, outputs and checkpoints, as members of a run's answer --- */

extern const struct schema schema_run_output, schema_run_checkpoint, schema_run_node;
RESULT run_add_lists(const struct request *request, struct pg *pg, const struct uuid *id, json_t *value, struct error *err);

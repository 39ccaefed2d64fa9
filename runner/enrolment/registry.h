/*
 * runner/enrolment/registry.h -- requests of a runner to its registry, in JSON.
 */
#pragma once

#include <jansson.h>

#include "client/http.h"
#include "runner/state/runner_state.h"

/** A connection to the registry of `state`, with its certificate if `with_certificate`. */
RESULT registry_connect(const struct runner_state *state, bool with_certificate, struct http **http_out, struct error *err);
/**
 * POST of a JSON body to a path below /api/v1. *answer_out: the object of a 200 or 201. Other statuses are a failure with the registry's message:
 * ERROR_DENIED (401, 403), ERROR_NOT_FOUND, ERROR_CONFLICT, ERROR_INVALID, ERROR_UNAVAILABLE (429, 5xx, no answer).
 */
RESULT registry_post(struct http *http, const char *path, const json_t *body, json_t **answer_out, struct error *err);

/*
 * training/format/shapes_priv.h -- shapes that several payloads have in common.
 */
#pragma once

#include "training/format/form.h"
#include "training/format/shapes.h"

#define RUN_INTEGER_MAX INT64_C(9007199254740991) /* 2^53 - 1: the largest integer that every JSON reader keeps exact */

/* A text of a form, and a whole number: for tables. */
#define FORM(form, largest, what)                                                         \
    {                                                                                     \
        .kind = SHAPE_TEXT, .least = 1, .most = (largest), .fits = (form), .must = (what) \
    }
#define NUMBER(smallest, largest, what)                                               \
    {                                                                                 \
        .kind = SHAPE_INTEGER, .least = (smallest), .most = (largest), .must = (what) \
    }

extern const struct run_shape run_shape_uuid, run_shape_audience, run_shape_digest, run_shape_hex, run_shape_time, run_shape_name,
    run_shape_project, run_shape_repository, run_shape_principal, run_shape_thumbprint, run_shape_nonce, run_shape_jurisdictions,
    run_shape_isolation, run_shape_count, run_shape_attempt, run_shape_node;
extern const struct run_shape run_shape_spec;

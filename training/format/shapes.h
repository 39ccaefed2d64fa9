/*
 * training/format/shapes.h -- the shapes of all payloads of a run (docs/formats/run.md).
 */
#pragma once

#include "training/format/shape.h"

extern const struct run_shape run_shape_request, run_shape_approval, run_shape_order, run_shape_lease, run_shape_certificate,
    run_shape_result, run_shape_admission, run_shape_refusal;
extern const struct run_shape run_shape_envelope; /* of DSSE, with exactly one signature */
extern const struct run_shape run_shape_bundle;

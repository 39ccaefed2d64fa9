/* The values that several payloads have in common. */
#include "training/format/shapes_priv.h"

const struct run_shape run_shape_uuid = FORM(form_uuid, 36, "a UUID in lower case");
const struct run_shape run_shape_audience = FORM(NULL, 127, "the origin of the registry's log, 1 to 127 bytes");
const struct run_shape run_shape_digest = FORM(form_digest, 71, "sha256: and 64 lower-case hex digits");
const struct run_shape run_shape_hex = FORM(form_hex, 64, "64 lower-case hex digits");
const struct run_shape run_shape_time = FORM(form_time, 24, "a time such as 2026-11-23T09:00:00.000Z");
const struct run_shape run_shape_name = FORM(form_name, 63, "1 to 63 of a-z, 0-9, '-', '_' and '.', first a letter or digit");
const struct run_shape run_shape_project = FORM(form_project, 255, "a project: organisation/project");
const struct run_shape run_shape_repository = FORM(form_repository, 255, "a repository: organisation/project/name");
const struct run_shape run_shape_principal = FORM(form_principal, 79, "robot: and a UUID, or ext: and 64 hex digits");
const struct run_shape run_shape_thumbprint = FORM(form_thumbprint, 43, "the RFC 7638 thumbprint of a key");
const struct run_shape run_shape_nonce = FORM(form_nonce, 32, "32 lower-case hex digits");
const struct run_shape run_shape_isolation = FORM(form_isolation, 16, "rlimits, cgroup-v1 or cgroup-v2");
const struct run_shape run_shape_count = NUMBER(0, RUN_INTEGER_MAX, "a whole number from 0 to 2^53 - 1");
const struct run_shape run_shape_attempt = NUMBER(1, 100, "a whole number from 1 to 100");
const struct run_shape run_shape_node = NUMBER(0, 255, "a whole number from 0 to 255");

static const struct run_shape jurisdiction = FORM(form_jurisdiction, 32, "1 to 32 of A-Z, 0-9 and '-', first a letter");
const struct run_shape run_shape_jurisdictions = {
    .kind = SHAPE_LIST, .least = 1, .most = 16, .element = &jurisdiction, .sorted_by = "", .must = "1 to 16 places"};

/*
 * policy/label_annotation.h -- the label that a manifest states of its own content, as an annotation (docs/policies.md).
 *
 * It goes along with the content, because it is a part of the bytes that the manifest's digest is of. It only raises: whoever reads it joins
 * it with what names and lineage give.
 */
#pragma once

#include "policy/label.h"

#define LABEL_ANNOTATION     "sijil.label"
#define LABEL_ANNOTATION_MAX (16 * 1024) /* bytes: the largest label has less */

/** A label, and the JSON that it borrows from. */
struct stated_label {
    json_t *json; /* owned; NULL: none is stated */
    struct label label;
};
void stated_label_done(struct stated_label *stated);
#define OWNED_STATED_LABEL __attribute__((cleanup(stated_label_done))) struct stated_label

/** The value of the annotation. ERROR_INVALID, ERROR_LIMIT: it is not the canonical JSON (RFC 8785) of a whole label; the message says what to write. */
RESULT label_annotation_read(const json_t *value, struct stated_label *stated_out, struct error *err);
/** Of a manifest. Without the annotation stated_out->json is NULL. Errors as above. */
RESULT label_annotation_of(const json_t *manifest, struct stated_label *stated_out, struct error *err);
/** The same of a manifest's bytes, which may have any members. */
RESULT label_annotation_of_text(struct bytes manifest, size_t bytes_max, struct stated_label *stated_out, struct error *err);

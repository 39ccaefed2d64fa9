/*
 * keyd/pin_fields.h -- digests and pins as the journals of keyd have them that note what was pinned (organisation_officers, organisation_restrictions, region_keyds).
 */
#pragma once

#include "base/bytes.h"
#include "documents/format/document.h"

#define PIN_FIELD_SIZE (8 + DOCUMENT_DIGEST_SIZE) /* u64 epoch | digest[32] */

/** Returns the place behind it. */
uint8_t *digest_field_put(uint8_t *at, const uint8_t digest[DOCUMENT_DIGEST_SIZE]);
uint8_t *pin_field_put(uint8_t *at, const struct document_pin *pin);
/** The reader has as many bytes: the seal of a journal is right, so a program wrote them. */
void digest_field_get(struct reader *reader, uint8_t digest_out[DOCUMENT_DIGEST_SIZE]);
void pin_field_get(struct reader *reader, struct document_pin *pin_out);
bool pin_field_is(const struct document_pin *one, const struct document_pin *other);

/*
 * crypto/keyd_replacement.h -- another key of a person with power: what sijil-keyd asks of it, and how its wait begins.
 */
#pragma once

#include "crypto/keyd_client.h"

#define KEY_WAITING_MAX 32 /* keys of persons with power that wait at a time: each needs an approver's signature */
/** A key that waits (docs/documents.md, "Replaced keys"). */
struct key_waiting {
    uint8_t key[DOCUMENT_DIGEST_SIZE];       /* its thumbprint */
    uint8_t principal[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of its owner */
    uint8_t document[DOCUMENT_DIGEST_SIZE];  /* of its enrolment: another document of the same key would wait anew */
    int64_t since_ms, counts_ms;             /* it may be pinned from counts_ms on */
};
/** What sijil-keyd knows of the keys of a principal. */
struct key_power {
    bool is_named;    /* a document of officers has named it, or it has broken a glass */
    bool is_approver; /* it has an approver's key, or had one */
    size_t count;
    struct key_waiting waiting[KEY_WAITING_MAX]; /* of all principals */
};
/** Whether another key of this principal needs a signature of one that it has, or a wait; `approves`: if the key is one of an approver. */
bool key_power_asks(const struct key_power *power, bool approves);
/** `principal`: the SHA-256 of its name in documents. */
RESULT keyd_key_power(struct keyd_client *client, const uint8_t principal[DOCUMENT_DIGEST_SIZE], struct key_power *power_out,
                      struct error *err);
/** As keyd_pin_document(), for the event that begins the wait of a key: *counts_ms_out is when keyd may pin its enrolment. */
RESULT keyd_replace_key(struct keyd_client *client, const struct document_pin_request *request, int64_t *counts_ms_out,
                        struct error *err);

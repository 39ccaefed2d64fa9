#include "witness/heads.h"

#include "audit/format/heads.h"
#include "crypto/ed25519.h"

struct result witness_cosign_heads(const struct witness_identity *identity, struct bytes statement, uint64_t time_s,
                                   struct buffer *note, struct error *err)
{
    struct buffer OWNED_BUFFER message = BUFFER(HEADS_NOTE_MAX), payload = BUFFER(8 + ED25519_SIGNATURE_SIZE);
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct heads heads;

    TRY(heads_read(statement, &heads, err));
    TRY(note_cosignature_message(&message, time_s, statement, err));
    TRY(ed25519_sign(identity->seed, buffer_bytes(&message), signature, err));
    TRY(buffer_add_u64(&payload, time_s, err));
    TRY(buffer_add(&payload, signature, sizeof signature, err));
    TRY(note_write_text(note, statement, err));
    return note_write_signature(note, &identity->key, buffer_bytes(&payload), err);
}

/*
 * keyd/key_register_room.h -- who may have how many places of the register of keys (keyd/key_register.h), and which entries go.
 *
 * No organisation takes what others need. An organisation may take its n-th place if as many places are free as the rule below wants, so each place is dearer
 * than the one before. The first KEY_REGISTER_FEW ones want 32 free places each; what is more has to leave half of the register free, and as many places as
 * it is itself. So one organisation alone gets 4,224 places, and each further one that takes all it may gets less. However greedy 20 of them are, a new one
 * still gets 156, and beside 80 still 25.
 */
#pragma once

#include "keyd/key_register_format.h"

#define KEY_REGISTER_FEW ((uint32_t)256)

/** Whether the organisation may have another place; 0: the registry, whose approvers alone sign for it, may have all that is left. */
bool key_register_has_room(const struct key_register_state *state, uint64_t organisation);
/** 48 bits of the name's digest; 0: of the registry, whose documents only approvers of the whole registry sign. */
uint64_t key_register_organisation(const struct document *document);
/** As key_register_check_holder(). */
RESULT key_register_has_holder(const struct key_register_state *state, const struct key_register_holder *holder,
                               struct error *err);
/**
 * Removes entries whose document has ended, and which nothing can be signed for any more. A key that was withdrawn stays, because it is withdrawn for ever.
 * Of one name the oldest entries go first: else an earlier version of a rule would become the newest one. ERROR_NO_MEMORY: nothing was removed.
 */
RESULT key_register_forget_ended(struct key_register_state *state, int64_t now_ms, struct error *err);
/**
 * After a recovery: removes what was enrolled by events from number `size` on, and was not withdrawn. An entry that has replaced earlier versions stands for
 * these, too, so it stays, one version lower: else the oldest of them could be pinned again. The lost version itself may be. What is
 * withdrawn stays so, without its event.
 */
void key_register_forget_lost(struct key_register_state *state, uint64_t size);

/*
 * gateway/housekeeper.h -- one thread that tidies the registry from time to time: sessions that have expired, bytes of
 * ended ones.
 *
 * Each round is registry_tidy(), under permits of its own. A round that fails is logged and tried again.
 */
#pragma once

#include "base/owned.h"
#include "gateway/gateway.h"

struct housekeeper;

/** The gateway's database, sequencer and registry must be open, and stay so until housekeeper_free(). */
RESULT housekeeper_new(const struct gateway *gateway, struct housekeeper **housekeeper_out, struct error *err);
/** Ends the thread after the round that runs. */
void housekeeper_free(struct housekeeper *housekeeper);
DEFINE_OWNED(housekeeper);

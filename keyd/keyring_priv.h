/*
 * keyd/keyring_priv.h -- seals and unseals the file of the key ring.
 */
#pragma once

#include "crypto/secret.h"
#include "keyd/keyring.h"

/** Opens the file in `directory`; the secret holds one struct keyring_body. */
RESULT keyring_unseal(int directory, struct bytes passphrase, struct secret **body_out, struct error *err);

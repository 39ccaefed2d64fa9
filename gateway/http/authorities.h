/*
 * gateway/http/authorities.h -- which authorities of clients a certificate leads to: the policy set says where the clients of each are.
 */
#pragma once

struct gnutls_x509_crt_int;
struct gnutls_x509_trust_list_st;

#define AUTHORITIES_MAX       4 /* an authority, one above it, and both renewed */
#define AUTHORITIES_TEXT_SIZE (AUTHORITIES_MAX * sizeof "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")

/**
 * Those of the list by which alone the chain is good, too, each as "sha256:..." of its certificate (DER), with spaces between. A name in a certificate
 * says nothing. "": none, or more than AUTHORITIES_MAX, because then nobody knows whether one that counts is missing.
 */
void authorities_find(struct gnutls_x509_trust_list_st *authorities, struct gnutls_x509_crt_int **chain, unsigned count,
                      char text_out[AUTHORITIES_TEXT_SIZE]) __attribute__((nonnull));

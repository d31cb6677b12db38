// Package inside measures a store in this process, without a broker: what its
// calls cost.
package inside

"""From files to syntax trees and back: what stands where, before anybody asks what it means."""
